"""Generators of synthetic tables: the papers', and one of patients. Nothing here is private."""

from eigenveil.datasets.patients import Patients
from eigenveil.datasets.spiked_matrices import SpikedGaussian, SpikedMatrices, SpikedSigns
from eigenveil.datasets.zipf import zipf_norms

__all__ = ["Patients", "SpikedGaussian", "SpikedMatrices", "SpikedSigns", "zipf_norms"]
