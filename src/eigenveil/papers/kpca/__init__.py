"""Düngler, Sanyal [kPCA]: adaptive private k-PCA."""

from eigenveil.doors import lazy_names

_HOMES = {
    "adaptive_oja": "AdaptiveOja TangentOja",
    "boxed_oja": "BoxedOja",
    "coordinate_bins": (
        "ZERO_SPREAD PrivateSpread StabilityHistogram box_sum coordinate_counts "
        "quarter_octave split_bins spread_counts"
    ),
    "deflation": "Deflation",
    "gap_projector": "GapProjector PrivateGap ProjectorStep",
    "printed": ("BoxedTangentOja SpikedRate StepDecay dp_gauss_1 dp_gauss_2_not_private dp_power"),
    "truncated_mean": "CoordinateCentre TruncatedMean boxed_mean halves printed_cost",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
