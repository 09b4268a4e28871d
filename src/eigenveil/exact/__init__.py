"""Records in, bounded statistics out."""

from eigenveil.doors import lazy_names

_HOMES = {
    "basis_products": "OUTSIDE_SCALE BasisProduct moment_columns unscaled",
    "batches": "Batches",
    "bounded": "Bounded",
    "clip": "FRACTION_BITS LARGEST_NORM NO_EXPONENT SHARE_BITS SMALLEST_NORM Clip",
    "column_histogram": "value_counts",
    "daily_moments": (
        "COEFFICIENT_BITS DailyMoments answer_weights coefficients contributions "
        "day_sensitivity packed unpacked"
    ),
    "gram": (
        "MomentSum MomentSums SquareSum UnitCount VectorSum column_squares count "
        "moment_sensitivities public_rows second_moment total trace"
    ),
    "histograms": (
        "BRACKETS DistanceCounts ExponentCounts Frame column_counts distance_counts "
        "level_counts norm_counts rows_beyond score_counts weighted_counts"
    ),
    "lattice": "GAUSSIAN LAPLACE QUANTILE_ERROR add_noise grid_exponent",
    "products": "MomentProducts moment_products",
    "row_maps": (
        "CellPresence LengthOutside Limit MarkChanged OnCircles Project Square circular_mean"
    ),
    "spectrum": (
        "along along_with_rest captured compressed compressed_with_rest eigengap eigenvalues "
        "inside leading projector projector_sensitivity weighted_eigenvalues"
    ),
    "symmetric": "GaussianLaw LazyGaussian WishartLaw add_symmetric_gaussian two_sided_wishart",
    "updates": "REACH update_blocks update_counts update_sum",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
