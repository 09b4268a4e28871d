"""Dong, Liang, Yi 2022 [CovRev]: private covariance revisited."""
