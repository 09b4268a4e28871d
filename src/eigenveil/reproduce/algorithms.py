"""The named algorithms of the five papers, as ``mechanism=`` takes them.

``PrivatePCA(2, epsilon=1, delta=0.01, mechanism=algorithm("k-DP-Ojas"))`` releases with the
algorithm of that name, privately and at its cost: what is here passes the gate like every other
mechanism. docs/papers/README.md maps algorithms, theorems and equations to names, files and tests.
"""

from collections.abc import Mapping

from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.covariance.adaptive import Adaptive
from eigenveil.mechanisms.covariance.coinpress import CoinPress
from eigenveil.mechanisms.covariance.exponential import Exponential
from eigenveil.mechanisms.covariance.gauss import Gauss
from eigenveil.mechanisms.covariance.laplace import Laplace
from eigenveil.mechanisms.covariance.separate import Separate
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGauss
from eigenveil.mechanisms.pca.boxed_oja import BoxedOja
from eigenveil.mechanisms.pca.deflation import Deflation
from eigenveil.mechanisms.pca.dp_pca import DPPCA
from eigenveil.mechanisms.pca.gap_projector import GapProjector
from eigenveil.mechanisms.pca.oja import Oja
from eigenveil.mechanisms.pca.power import Power
from eigenveil.mechanisms.pca.shuffled_oja import ShuffledOja
from eigenveil.mechanisms.registry import Entry
from eigenveil.reproduce.printed.boxed_tangent_oja import BoxedTangentOja

__all__ = ["ALGORITHMS", "algorithm"]

ALGORITHMS: Mapping[str, Entry] = {
    # [CovRev]
    "GaussCov": Gauss(),
    "LapCov": Laplace(),
    "SeparateCov": Separate(),
    "AdaptiveCov": Adaptive(),
    "EMCov": Exponential(),
    "CoinPress": CoinPress(),
    # [kPCA] and the methods that it compares with
    "Private Oja": Oja(),
    "AdaDPO": BoxedOja(centre="histograms"),
    "TAdaDPO": BoxedTangentOja(),
    "k-DP-PCA": Deflation(inner=DPPCA()),
    "k-DP-Ojas": Deflation(inner=ShuffledOja(rate="harmonic")),
    "DP-Gauss-1": AnalyzeGauss(),
    "DP-Gauss-2": GapProjector(),
    "DP-Power-Method": Power(),
    # [DPPCA]
    "DP-PCA": DPPCA(),
    "DP-Ojas": ShuffledOja(rate="harmonic"),
}
"""By the name that its paper gives it. [Spiked] Algorithm 1 is `Spiked`, which needs a model."""


def algorithm(name: str) -> Entry:
    """Return the mechanism of an algorithm's name."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = ", ".join(ALGORITHMS)
        raise InvalidParameterError(f"no algorithm {name}: choose one of {known}") from None
