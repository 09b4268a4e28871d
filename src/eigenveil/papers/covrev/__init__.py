"""Dong, Liang, Yi 2022 [CovRev]: private covariance revisited."""

from eigenveil.doors import lazy_names

_HOMES = {
    "adaptive": "Adaptive ClippingThreshold NoiseBound PrivateRadius",
    "baselines": "LapCov Laplace LaplaceComponents Projection Separate Zero on_basis",
    "coinpress": "GAUSSIAN_TAILS LAPLACE_TAILS CoinPress",
    "exponential": "BinghamDirection Exponential ExponentialComponents draw_bingham",
    "printed": "adaptive_cov gauss_cov lap_cov separate_cov separate_cov_pure symmetric",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
