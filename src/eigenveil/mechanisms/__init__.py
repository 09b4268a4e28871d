"""One algorithm, one file; the privacy argument is in the file and in docs/proofs."""

from eigenveil.doors import lazy_names

_HOMES = {
    "additive": "GaussianNoise LaplaceNoise NoisyMean PrivateMean PrivateTrace vector_noise",
    "analyze_gauss": "AnalyzeGauss Spherical WishartComponents directions",
    "captured": "Captured CapturedVariance captured_pays",
    "centre": (
        "CentreSteps Centred CentredResult LocatedCentre Paired Uncentred enough_rows mean_shares"
    ),
    "cleaned": "AdaptiveCleaned Cleaned",
    "column_scale": ("ColumnScale FoundScales Scaled enough_for_scales scale_share without_hidden"),
    "columns": "Columns",
    "component_stages": "ComponentStages Further PrivateVariances Variances",
    "components": "NoisyComponents leading reliability",
    "continual": "ContinualCov DailyDraw DailyGate",
    "correlation": "Correlation standardised",
    "counted": "COUNT_SHARE Counted DrawnRowsGate",
    "distances": (
        "FALSE_ALARM NoisyDistances PrivateDistances PrivateRadiusClip distance_share "
        "laplace_sum noise_rows searchable"
    ),
    "elliptical": "Elliptical",
    "fourth_moments": "SPREAD_SHARE FourthMoments",
    "front": "CORRELATION Front",
    "gate": "Gate MomentMechanism proofs_of release",
    "gauss": "Gauss GaussCov NoisyMatrix",
    "homogeneous_rows": "HomogeneousRows",
    "image_noise": "ImageNoise",
    "joined": "JoinedRegression",
    "levels": "PrivateLevels",
    "linear": "LinearStages Stage TargetSteps",
    "linear_rows": "Design Gradients Records Residuals reordered",
    "median_of_means": "MedianOfMeans PrivateQuantile blocks_of findable free_ends",
    "missing_rates": "Present missing_shares",
    "oja": "Oja",
    "one_pass": "OnePassState",
    "power": "Power",
    "rank": "PrivateEigenvalues PrivateNoiseVariance PrivateRank bulk_weights",
    "registry": (
        "BuildContext ComponentMechanism CovarianceMechanism LazyMechanism Mechanism Releases "
        "entries entry options wide"
    ),
    "released_scales": "ReleasedScales",
    "row_bounds": "FrontBounds LocatedBounds RadiusBounds RowBounds",
    "score_map": "SCORE_SHARE ScoreHistogram score_bins",
    "sparse_vector": "SparseVector",
    "standardising": "standardised_by_itself standardising_step",
    "tangent": "NoisyProduct ProductNoise Tangent",
    "wishart": "Wishart WishartCov",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
