"""The papers' generators of synthetic tables. For experiments: nothing here is private."""

from eigenveil.datasets.zipf import zipf_norms

__all__ = ["zipf_norms"]
