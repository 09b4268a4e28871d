"""Cai, Xia, Zha 2024 [Spiked]: optimal private PCA and covariance under the spiked model."""
