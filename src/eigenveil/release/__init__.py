"""The artefact: arrays, a versioned statement and a page for people."""

from eigenveil.doors import lazy_names

_HOMES = {
    "artefact": "Release",
    "consistency": "check_consistency",
    "content": "decode_arrays read_statement require_paid",
    "export": "FORMATS",
    "files": "SIGNATURE SUMS",
    "invariants": "check_arrays",
    "postprocessing": (
        "conditional_means factor_analysis mahalanobis "
        "partial_correlation_threshold partial_correlations principal_component_regression "
        "regression sample standard_errors whitening"
    ),
    "projection": "Projection",
    "signature": "Signature fingerprint generate_key private_key",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
