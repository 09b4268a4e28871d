"""A covariance matrix under differential privacy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from eigenveil.estimators.base import PrivateEstimator
from eigenveil.mechanisms.base import Mechanism
from eigenveil.mechanisms.covariance.cleaned import CleanedCov
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.covariance.projection import ProjectedCov
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release

__all__ = ["PrivateCovariance"]


class PrivateCovariance(PrivateEstimator):
    """A covariance matrix, released once with differential privacy.

    Parameters
    ----------
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, or ``rho`` alone.
    mechanism : {"cleaned", "gauss", "projection"}
        ``"cleaned"`` takes the known noise off the eigenvalues; ``"projection"`` only makes the
        matrix positive semi-definite; ``"gauss"`` leaves the noise as it is.
    row_norm, bounds, assume_centered, adjacency, on_invalid, ledger, random_state
        As in `PrivatePCA`, except that ``bounds`` alone clip at the distance from the start (the
        middle of the box, or the origin if centred) to its farthest corner. A smaller
        ``row_norm`` means less noise, and smaller variances if rows lie beyond it.

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        Symmetric, and positive semi-definite except under ``"gauss"``.
    location_ : array of shape (n_features,)
        The released centre; zero if ``assume_centered``.
    n_samples_ : int
        None where the number of rows is private.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry; public.
    noise_floor_ : float
        Eigenvalue that noise alone, of matrix and centre, rarely exceeds (about 1 %); public.
    release_ : Release
        The artefact: save it, publish it.
    privacy_ : Guarantee
        The promise; ``privacy_.sentence()`` puts it into words.

    Privacy
    -------
    Protects one row. Each `fit` spends the budget once. Public: constructor arguments, number
    of columns, and under replace-one the number of rows. Never released: row norms, how many
    rows were clipped or invalid.

    """

    mechanisms: ClassVar[dict[str, Callable[..., Mechanism[NoisyMatrix]]]] = {
        CleanedCov.name: CleanedCov,
        GaussCov.name: GaussCov,
        ProjectedCov.name: ProjectedCov,
    }

    # The mean squared distance of rows in the box from their mean is at most its reach squared.
    shrink = 1.0

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str = CleanedCov.name,
        row_norm: float | None = None,
        bounds: Any = None,
        assume_centered: bool = False,
        adjacency: str = "replace-one",
        on_invalid: Literal["raise", "zero"] = "raise",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.bounds = bounds
        self.assume_centered = assume_centered
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the covariance of ``X``: an array, a data frame, a path, or chunks."""
        factory = self._factory()
        outcome = self._release(X, lambda mu, _: factory(mu=mu))
        del X
        noisy = outcome.result.inner
        self.covariance_ = noisy.matrix * outcome.per_row
        self.location_ = outcome.result.centre
        self.n_samples_ = outcome.result.n_rows
        self.privacy_ = outcome.guarantee
        arrays = {"covariance": self.covariance_, "location": self.location_}
        if noisy.noisy_eigenvalues is not None:
            arrays["noisy_eigenvalues"] = noisy.noisy_eigenvalues * outcome.per_row
        self.release_ = Release(
            kind="covariance",
            mechanism=self.mechanism,
            guarantee=outcome.guarantee,
            settings=self._settings(outcome, noisy.noise_scale),
            arrays=arrays,
        )
        return self
