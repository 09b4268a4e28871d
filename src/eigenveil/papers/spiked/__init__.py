"""Cai, Xia, Zha 2024 [Spiked]: optimal private PCA and covariance under the spiked model."""

from eigenveil.doors import lazy_names

_HOMES = {
    "estimator": "PrivateSpikedModel",
    "figures": "draw_rows",
    "mechanism": "Spiked SpikedProjector SpikedValues",
    "model": "SpikedModel",
    "printed": "classic",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
