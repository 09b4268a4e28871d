"""Li, Cai, Xia, Zhang 2024 [Fed]: federated private PCA."""

from eigenveil.doors import lazy_names

_HOMES = {
    "client": "SpikedClient",
    "printed": "Client algorithm_1 fed_dp_oja",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
