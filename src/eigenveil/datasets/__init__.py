"""The papers' generators of synthetic tables. For experiments: nothing here is private."""

from eigenveil.datasets.spiked_matrices import SpikedGaussian, SpikedMatrices, SpikedSigns
from eigenveil.datasets.zipf import zipf_norms

__all__ = ["SpikedGaussian", "SpikedMatrices", "SpikedSigns", "zipf_norms"]
