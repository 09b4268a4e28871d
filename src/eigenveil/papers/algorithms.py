"""The named algorithms of the five papers, as ``mechanism=`` takes them.

``PrivatePCA(2, epsilon=1, delta=0.01, mechanism=algorithm("k-DP-Ojas"))`` releases with the
algorithm of that name, privately and at its cost: what is here passes the gate like every other
mechanism. docs/papers/README.md maps algorithms, theorems and equations to names, files and tests.
"""

from collections.abc import Mapping

from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.analyze_gauss import AnalyzeGauss
from eigenveil.mechanisms.gauss import Gauss
from eigenveil.mechanisms.oja import Oja
from eigenveil.mechanisms.power import Power
from eigenveil.mechanisms.registry import Mechanism
from eigenveil.papers.covrev.adaptive import Adaptive
from eigenveil.papers.covrev.baselines import Laplace, Separate
from eigenveil.papers.covrev.coinpress import CoinPress
from eigenveil.papers.covrev.exponential import Exponential
from eigenveil.papers.dppca.dp_pca import DPPCA
from eigenveil.papers.dppca.shuffled_oja import ShuffledOja
from eigenveil.papers.kpca.boxed_oja import BoxedOja
from eigenveil.papers.kpca.deflation import Deflation
from eigenveil.papers.kpca.gap_projector import GapProjector
from eigenveil.papers.kpca.printed import BoxedTangentOja

ALGORITHMS: Mapping[str, Mechanism] = {
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


def algorithm(name: str) -> Mechanism:
    """Return the mechanism of an algorithm's name."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = ", ".join(ALGORITHMS)
        raise InvalidParameterError(f"no algorithm {name}: choose one of {known}") from None
