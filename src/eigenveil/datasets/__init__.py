"""Generators of synthetic tables: the papers', and one of patients. Nothing here is private."""

from eigenveil.doors import lazy_names

_HOMES = {
    "generators": "SpikedGaussian SpikedMatrices SpikedSigns zipf_norms",
    "patients": "Patients",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
