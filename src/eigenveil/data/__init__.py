"""Records in, bounded statistics out."""

from eigenveil.doors import lazy_names

_HOMES = {
    "bounded": "Bounded",
    "clip": "Clip",
    "gram": "column_squares count second_moment total trace",
    "norms": "column_counts norm_counts",
    "sources": "GroupedSource RowSource open_rows",
    "spectrum": "along captured eigengap eigenvalues inside leading weighted_eigenvalues",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
