"""Liu, Kong, Jain, Oh 2022 [DPPCA]: DP-PCA for one component."""

from eigenveil.doors import lazy_names

_HOMES = {
    "dp_pca": "DPPCA",
    "shuffled_oja": "ShuffledOja ShuffledRecords shuffled_records",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
