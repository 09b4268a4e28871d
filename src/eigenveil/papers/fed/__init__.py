"""Li, Cai, Xia, Zhang 2024 [Fed]: federated private PCA."""
