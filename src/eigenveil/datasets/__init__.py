"""Generators of synthetic tables: the papers', and one of patients. Nothing here is private."""

from eigenveil.doors import lazy_names

_HOMES = {
    "patients": "Patients",
    "spiked_matrices": "SpikedGaussian SpikedMatrices SpikedSigns",
    "zipf": "zipf_norms",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
