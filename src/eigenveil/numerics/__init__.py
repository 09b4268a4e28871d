"""Arrays and arithmetic; nothing here knows about privacy."""

from eigenveil.doors import lazy_names

_HOMES = {
    "array_backend": "HOST Place chacha_words",
    "build_rows": "build",
    "circles": "Circles points_on_circles",
    "cleaning": (
        "clean_eigenvalues entry_noise epanechnikov_hilbert highest unit_shares "
        "upper_quantiles variance_shares"
    ),
    "column_limits": "ColumnLimits limited_rows",
    "component_law": (
        "ComponentGroup ComponentStatement correlation_statement dense_statement "
        "expected_mixing inner_statement leading_statement pair_noise"
    ),
    "integers": "LARGEST ExactSum FixedPoint add fitted in_all sum_of_products whole widened",
    "kernels": "squared_norms",
    "metrics": "captured_variance relative_error subspace_distance",
    "moment_intervals": "Moments",
    "pair_shares": "PairShares frechet_bounds",
    "random": "NoiseSource SimulationSource SystemSource normals uniforms",
    "ridge": "RidgeState",
    "spectral": (
        "block_krylov eigenpairs_of_image map_eigenvalues project_to_simplex top_eigenpairs"
    ),
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
