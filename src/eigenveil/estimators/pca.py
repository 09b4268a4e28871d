"""Principal components under differential privacy."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigenveil.data.batches import check_batches
from eigenveil.data.clip import Clip
from eigenveil.data.sources import RowSource
from eigenveil.estimators.base import (
    Asked,
    Family,
    Outcome,
    mean_score,
    standing_out,
    without_law,
)
from eigenveil.estimators.bounds import RowNorm, StatedBounds, by_column
from eigenveil.estimators.scores import ComponentEstimator
from eigenveil.exceptions import (
    BoundsRequiredError,
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Procedure
from eigenveil.mechanisms.centred import CentredResult, Uncentred
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOja
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGauss, wide
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.mechanisms.pca.deflation import Deflation
from eigenveil.mechanisms.pca.dp_pca import DPPCA
from eigenveil.mechanisms.pca.exponential import ExponentialPCA
from eigenveil.mechanisms.pca.gap_projector import GapProjector
from eigenveil.mechanisms.pca.laplace import LaplacePCA
from eigenveil.mechanisms.pca.oja import PrivateOja
from eigenveil.mechanisms.pca.power import NoisyPower
from eigenveil.mechanisms.pca.shuffled_oja import ShuffledOja
from eigenveil.mechanisms.pca.spherical import SphericalPCA
from eigenveil.mechanisms.pca.spiked import Spiked
from eigenveil.mechanisms.pca.staged import StagedComponents
from eigenveil.mechanisms.pca.tangent import TangentPCA
from eigenveil.mechanisms.pca.tangent_oja import TangentOja
from eigenveil.mechanisms.pca.wishart import WishartPCA
from eigenveil.mechanisms.truncated_mean import ADVANCED_UP_TO, Composition
from eigenveil.numerics.spiked_model import SpikedModel
from eigenveil.planner import Situation
from eigenveil.planner.stages import Centring, Plan, free_centring
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.privacy.guarantee import Kind
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release

__all__ = ["PrivatePCA"]

_MOST_RANK = 50  # of a private rank
_DIRECTIONS = ("spherical", "tangent")  # which use nothing else of a row


def _gap_projector(mu: float, asked: Asked) -> GapProjector:
    return GapProjector.build(mu, _delta(asked, "analyze-gauss"), asked.n_components)


def _delta(asked: Asked, otherwise: str) -> float:
    if asked.budget.delta is None:
        raise UnsupportedNotionError(
            f"{asked.mechanism!r} may fail with a small probability: give epsilon and delta, or "
            f"choose mechanism={otherwise!r}"
        )
    return asked.budget.delta


def _dp_pca(epsilon: float, asked: Asked) -> DPPCA:
    # Beyond the range of advanced composition basic composition holds.
    composition: Composition = "advanced" if epsilon <= ADVANCED_UP_TO else "basic"
    return DPPCA.build(epsilon, _delta(asked, "oja"), asked.n_components, composition=composition)


def _deflation(epsilon: float, asked: Asked) -> Deflation:
    return Deflation(
        inner=_dp_pca(epsilon, replace(asked, n_components=1)), n_components=asked.n_components
    )


def _shuffled_oja(epsilon: float, asked: Asked) -> ShuffledOja:
    if asked.n_rows is None:
        raise InvalidDataError(
            "'shuffled-oja' must know the number of rows: give a table that can be read twice, or "
            "choose mechanism='oja'"
        )
    delta = _delta(asked, "oja")
    return ShuffledOja(
        epsilon=epsilon,
        delta=delta if asked.alone else delta / 2,  # the rest is for the centre
        n_records=asked.n_rows,
        n_components=asked.n_components,
    )


def _spiked(mu: float, asked: Asked) -> Spiked:
    assert asked.model is not None  # `_consider` has checked
    return Spiked(mu=mu, model=asked.model)


def _has_density(pca: "PrivatePCA") -> bool:
    """Whether the release says how likely a row is, as far as it is known.

    Asked before a fit too: cross-validation then stops before anything is charged.
    """
    plan: Plan | None = getattr(pca, "plan_", None)
    if plan is None:
        stated = (pca.row_norm, pca.bounds, pca.model)
        shares = all(bound is None for bound in stated) and not pca.variances
    else:
        shares = plan.normalise and not plan.variances
    if shares:
        raise AttributeError(
            "shares of variance make no density: state row_norm, or pass variances=True"
        )
    if (pca.centring if plan is None else plan.centring) == "paired":
        raise AttributeError(
            "pairs of rows have no centre to measure from: state row_norm, or pass "
            "centring='located'"
        )
    if plan is not None and not pca._regular:
        raise AttributeError("the released covariance is singular: ask for fewer components")
    return True


class PrivatePCA(ComponentEstimator):
    """Leading principal components, released once with differential privacy.

    ``PrivatePCA(5, epsilon=1, delta=1e-6).fit(X)`` needs no bound: rows are scaled to unit length
    about a private centre, so that only their directions count. State ``row_norm`` to have the
    covariance's own directions and eigenvalues, at a larger noise.

    Parameters
    ----------
    n_components : int or "private", optional
        How many components to release; all of them by default. ``"private"`` finds the number
        with a tenth of the budget, or says that there is none.
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, ``rho`` alone, or ``epsilon`` alone for
        a pure guarantee.
    mechanism : {"auto", "tangent", "spherical", "analyze-gauss", "gap-projector", "power", "oja", \
"adaptive-oja", "tangent-oja", "deflation", "dp-pca", "shuffled-oja", "wishart", "exponential", \
"laplace", "spiked"}
        How noise is added. ``"auto"`` lets the planner choose from public numbers and records why:
        ``"tangent"`` as a rule, ``"analyze-gauss"`` with ``row_norm`` or where stated ``bounds``
        promise less error, ``"wishart"`` for a pure guarantee. ``"exponential"`` and ``"laplace"``
        are pure too. ``"oja"``, ``"adaptive-oja"`` and ``"tangent-oja"`` use each row once, in
        batches, and form no matrix; ``"power"`` forms none either and reads them ten times.
        Batches of a table are random, and files are held in memory for them. Those of an iterator
        come as they arrive, which the promise says; shuffle a sorted one first.
        ``"deflation"``, ``"dp-pca"`` and ``"shuffled-oja"`` are the methods of the papers, for
        comparison; the last two find one component.
        ``"spiked"`` protects tables of a ``model`` only and is never chosen.
    row_norm : float or "private", optional
        Public clipping distance of a row from the centre; rows are clipped instead of normalised.
        ``"private"`` finds one with a tenth of the budget at most. With ``scale`` it is a distance
        of scaled rows.
    bounds : (low, high) or {name: (low, high)}, optional
        Public range of the entries: two numbers, two arrays with one number per column, or a range
        for each column by name, as they are before a ``scale`` divides them. A better centre where
        they are known. ``"analyze-gauss"``, ``"gap-projector"``, ``"exponential"`` and
        ``"laplace"`` then clip rows at 1/sqrt(3) of the way to the farthest corner.
    assume_centered : bool
        Take the origin as the centre.
    centring : {"mean", "located", "paired"}, optional
        How the centre is found: ``"mean"`` for rows that are clipped (0.1, pure 0.2); for
        normalised ones ``"located"`` (0.15 of mu^2 or 0.25 of a pure epsilon, and up to three
        searches for a distance), or
        ``"paired"``: differences of pairs of rows have no centre, at twice the noise. By default
        ``"paired"`` for private scales and for small tables, of fewer than max(192, 20 sqrt(d))/mu
        rows ((700 + 64 d)/epsilon for a pure budget), ``"located"`` for others.
    scale : array of shape (n_features,) or "private", optional
        Public scales that columns are divided by. ``"private"`` finds them with a tenth of the
        budget, about one standard deviation each, and leaves out columns whose scale does not
        stand out. By default columns are taken as they are.
    variances : bool
        Where rows are normalised: buy the variance inside the components in the units of the data
        with 0.05 of the budget and a search for a distance. One total, of rows clipped at two to
        three times the median distance (too small by 0.06 at most for Gaussian rows, by 0.3 for a
        single direction), divided by the shares of normalised rows.
    model : SpikedModel, optional
        For ``mechanism="spiked"``: the law that rows are assumed to follow.
    lazy : bool, optional
        Draw noise for the products that are needed instead of a d x d matrix, which ``"tangent"``,
        ``"spherical"`` and ``"analyze-gauss"`` can. By default for few components of more than
        4096 columns. The promise then covers real numbers only (idealised numerics).
    adjacency : {"replace-one", "add-remove"}
        Which tables count as neighbours. Under ``"add-remove"`` the number of rows is private.
    on_invalid : {"raise", "zero"}
        Whether a row with a missing or infinite value stops the fit or contributes nothing.
    on_missing : {"invalid", "centre"}
        Whether an empty cell (NaN) makes its row invalid or is taken as the centre's, which is zero
        for differences of pairs. `transform` fills such cells with ``mean_``.
    ledger : Ledger or path, optional
        Charged before any noise is drawn; refuses what it cannot cover.
    random_state : int, optional
        Seed of a simulation. A seeded fit is marked as not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Directions of largest variance, as rows.
    reliability_ : array of shape (n_components,)
        Expected squared cosine between each component and those the same rows would give about
        the same centre without noise; 0 where it cannot be told from noise, or is one of many like
        it. Directions of nearly the same variance mix, among themselves and with the next that
        were not released, which is not counted.
    distinguishable_ : array of shape (n_components,)
        Whether each component stands out from the noise of the matrix. The error of the centre may
        add one component: where it could, the likeliest is taken for it.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays
        Noisy eigenvalues (never below zero), their share of the noisy trace, and the square
        root of eigenvalue times number of rows (NaN where that is private and not needed). By
        default shares of the variance of normalised
        rows, which add to at most 1; in squared units of the data where rows are clipped, or with
        ``variances``.
    noise_variance_ : float
        Variance of a direction beside the components, in the units of ``explained_variance_``.
    mean_ : array of shape (n_features,)
        The released centre. ``"paired"`` finds none: then zero, scores are those of rows as they
        are, and `inverse_transform` does not restore the mean.
    scale_ : array of shape (n_features,)
        What columns are divided by, infinite for a column that is left out; ones by default.
    mechanism_, choice_ : str
        The mechanism, and why ``"auto"`` chose it.
    row_norm_ : float
        Where rows were clipped, if that was chosen privately.
    n_components_, n_samples_ : int
        ``n_samples_`` is None where the number of rows is private; with groups, that of groups.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry of the matrix; public.
    matrix_floor_, noise_floor_ : float
        Eigenvalue that noise of the matrix alone, and of matrix and centre, rarely exceeds (about
        1 %); public. One component between the two may be the error of the centre.
    plan_, shares_ : Plan, dict
        The stages of the release (``plan_.centring`` among them), and how the budget was split
        among scale, centre, radius, rank, components and variances: shares of mu^2, or of a pure
        epsilon. Searches for a centre, and for the distance of variances, come on top.
    release_ : Release
        The artefact: save it, publish it.
    privacy_ : Guarantee
        The promise; ``privacy_.sentence()`` puts it into words.

    Notes
    -----
    Privacy: protects one row, or with ``groups`` all rows of one id, each of which then weighs one
    over their number. Each `fit` spends the budget once. Public: constructor arguments, number of
    columns, and under replace-one the number of rows, or of groups. Never released: row norms, how
    many rows were clipped or invalid, how many rows an id has. What `transform`, `score_samples`
    and `score` return is not private with respect to their input.

    Cross-validation fits once per fold and candidate, and once more to refit; each of these is a
    release. A ``ledger`` is charged for every one, in all processes; without it nothing counts
    them, which ``privacy_`` says. scikit-learn turns a refusal of the ledger into a score of NaN
    and a ``FitFailedWarning`` that quotes it, unless ``error_score="raise"``. The scores, and what
    is chosen by them, are not private: compare candidates on public or simulated rows.
    ``groups`` of a splitter are not those of a fit: pass ``params={"groups": ids}`` as well.

    """

    mechanisms: ClassVar[dict[str, Family[NoisyComponents]]] = {
        "tangent": Family(
            gaussian=lambda mu, asked: TangentPCA(
                mu=mu, n_components=asked.n_components, lazy=asked.lazy
            ),
            one_pass=False,
            normalises=True,
            lazy=True,
        ),
        "spherical": Family(
            gaussian=lambda mu, asked: SphericalPCA(
                mu=mu, n_components=asked.n_components, lazy=asked.lazy
            ),
            normalises=True,
            lazy=True,
        ),
        "analyze-gauss": Family(
            gaussian=lambda mu, asked: AnalyzeGauss(
                mu=mu, n_components=asked.n_components, lazy=asked.lazy
            ),
            lazy=True,
        ),
        "gap-projector": Family(gaussian=_gap_projector),
        "power": Family(
            gaussian=lambda mu, asked: NoisyPower(mu=mu, n_components=asked.n_components),
            one_pass=False,
            normalises=True,
        ),
        "oja": Family(
            gaussian=lambda mu, asked: PrivateOja(mu=mu, n_components=asked.n_components),
            normalises=True,
            batches=True,
        ),
        "adaptive-oja": Family(
            gaussian=lambda mu, asked: AdaptiveOja.build(mu, asked.n_components),
            normalises=True,
            batches=True,
        ),
        "tangent-oja": Family(
            gaussian=lambda mu, asked: TangentOja.build(mu, asked.n_components),
            normalises=True,
            batches=True,
        ),
        "deflation": Family(gaussian=_deflation, one_pass=False, normalises=True, batches=True),
        "dp-pca": Family(gaussian=_dp_pca, normalises=True, batches=True),
        "shuffled-oja": Family(
            gaussian=_shuffled_oja, one_pass=False, normalises=True, batches=True
        ),
        "wishart": Family(
            pure=lambda epsilon, asked: WishartPCA(
                epsilon=epsilon, n_components=asked.n_components
            ),
            normalises=True,
        ),
        "exponential": Family(
            gaussian=lambda mu, asked: ExponentialPCA.concentrated(mu, asked.n_components),
            pure=lambda epsilon, asked: ExponentialPCA.pure(epsilon, asked.n_components),
        ),
        "laplace": Family(
            pure=lambda epsilon, asked: LaplacePCA(epsilon=epsilon, n_components=asked.n_components)
        ),
        "spiked": Family(gaussian=_spiked, one_pass=False),
    }
    pure_default = "wishart"
    one_pass = "spherical"
    subject = "clipping"

    # Clip at the root mean square distance of a point uniform on the box: directions gain more
    # from the smaller noise, which grows with the square of the bound, than clipping costs them.
    shrink = 1 / math.sqrt(3)

    def __init__(
        self,
        n_components: int | Literal["private"] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str = "auto",
        row_norm: RowNorm | None = None,
        bounds: Any = None,
        assume_centered: bool = False,
        centring: Literal["mean", "located", "paired"] | None = None,
        scale: Any = None,
        variances: bool = False,
        model: SpikedModel | None = None,
        lazy: bool | None = None,
        adjacency: str = "replace-one",
        on_invalid: Literal["raise", "zero"] = "raise",
        on_missing: Literal["invalid", "centre"] = "invalid",
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
        self.centring = centring
        self.scale = scale
        self.variances = variances
        self.model = model
        self.lazy = lazy
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.random_state = random_state
        self.n_components = n_components

    # From the arguments to a procedure: public numbers only.

    def _situation(self, budget: Budget, adjacency: Adjacency, source: RowSource) -> Situation:
        n = self._public_rows(adjacency, source)
        k = self._most_rank(source) if isinstance(self.n_components, str) else None
        # Directions are what these ways to a centre are for.
        clips = self.bounds is not None and self.centring not in ("located", "paired")
        return Situation(
            task="pca",
            n=n,
            d=source.n_columns,
            k=max(1, k) if k is not None else self._wanted(source, n),
            budget=budget,
            adjacency=adjacency,
            row_norm=None if isinstance(self.row_norm, str) else self.row_norm,
            private_radius=isinstance(self.row_norm, str),
            bounded=clips,
            per_column=clips and by_column(self._ranges()),
            assume_centered=bool(self.assume_centered),
            one_pass=not source.rereadable,
            unit=source.protects.name,
        )

    def _normalises(self, name: str) -> bool:
        """Whether rows are scaled to unit length."""
        if name == "spiked" or self.row_norm is not None:
            return False
        return self._family(name).normalises or self.bounds is None

    def _bounds(self, name: str, n_columns: int, trace_bound: float | None) -> StatedBounds:
        if self.row_norm is not None and name in _DIRECTIONS:
            raise InvalidParameterError(
                f"{name!r} uses directions of rows and no length: leave row_norm out, or choose "
                "mechanism='analyze-gauss'"
            )
        if name == "spiked":
            clip = Clip(row_norm=1.0, on_invalid=self.on_invalid)
            words = ("rows clipped where the assumed model has none (a public rule)",)
            return StatedBounds(clip, clip, words, stated=False)
        if not self._normalises(name):
            return super()._bounds(name, n_columns, trace_bound)
        direction = "every row scaled to unit length about the centre, whatever its length"
        if self.bounds is None:
            clip = Clip(row_norm=1.0, on_invalid=self.on_invalid, on_missing=self.on_missing)
            return StatedBounds(clip, clip, (f"none needed: {direction}",), stated=False)
        boxed = super()._bounds(name, n_columns, trace_bound)
        return replace(boxed, words=(boxed.words[0], direction), stated=False)

    def _consider(self, asked: Asked) -> Asked:
        """The number of components, the form of the noise, and what goes together."""
        d, name = asked.n_columns, asked.mechanism
        self._check_model(asked)
        if asked.family.batches:
            check_batches(asked.source, asked.adjacency)
        if isinstance(self.scale, str):
            self._check_private_scale(asked.adjacency)
            if name == "gap-projector":
                raise InvalidParameterError(
                    "'gap-projector' needs to know its columns beforehand: give the scales"
                )
        chosen = self.mechanism == "auto" and self.row_norm is None
        if self.variances and not (self._normalises(name) or chosen):
            raise InvalidParameterError(
                "explained_variance_ is in the units of the data already: leave variances out"
            )
        if asked.n_rows is None:
            asked = replace(asked, n_rows=self._public_rows(asked.adjacency, asked.source))
        private = isinstance(self.n_components, str)
        k = self._most_rank(asked.source) if private else self._wanted(asked.source, asked.n_rows)
        if name == "gap-projector" and k == d:
            raise InvalidParameterError(
                "a gap needs fewer components than columns: state n_components"
            )
        lazy = wide(d, k) and asked.family.lazy if self.lazy is None else bool(self.lazy)
        if lazy and not asked.family.lazy:
            raise InvalidParameterError(f"{name!r} needs the whole matrix: leave lazy out")
        if private:
            self._check_private_rank(asked, k, lazy)
        if lazy and self.mechanism == "auto" and name == "tangent":
            # Without a matrix to average, a first release that is not followed up is lost.
            asked = replace(asked, mechanism="spherical", family=self._family("spherical"))
        asked = replace(asked, n_components=k, lazy=lazy, model=self.model)
        if not asked.source.rereadable and self._centring(replace(asked, n_rows=1)) != "none":
            raise self._read_once()
        return asked

    def _most_rank(self, source: RowSource) -> int:
        return min(_MOST_RANK, source.n_columns - 1)

    def _wanted(self, source: RowSource, n: int | None) -> int:
        d = source.n_columns
        if source.protects.owns_many:
            n = None  # one person's rows may have as many directions as there are columns
        wanted: Any = self.n_components
        if wanted is None:
            wanted = min(d, d if n is None else n) if self.model is None else self.model.rank
        if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)):
            raise InvalidParameterError("n_components must be a positive integer or 'private'")
        if not 1 <= wanted <= d:
            raise InvalidParameterError(
                f"n_components must be between 1 and the number of columns, {d}"
            )
        if n is not None and wanted > n:
            raise InvalidParameterError(
                "n_components exceeds the number of rows: ask for fewer components"
            )
        return int(wanted)

    def _check_private_rank(self, asked: Asked, most: int, lazy: bool) -> None:
        if self.n_components != "private":
            raise InvalidParameterError("n_components must be a positive integer or 'private'")
        if most < 1:
            raise InvalidParameterError("a private rank needs at least two columns")
        if not asked.adjacency.count_is_public:
            raise UnsupportedNotionError(
                "a private rank needs a public number of rows: state n_components, or choose "
                "adjacency='replace-one'"
            )
        if lazy:
            raise InvalidParameterError(
                "a private rank needs the whole matrix: state n_components, or pass lazy=False"
            )
        if asked.mechanism in ("exponential", "gap-projector", "spiked", "dp-pca", "shuffled-oja"):
            raise InvalidParameterError(
                f"the cost of {asked.mechanism!r} depends on the number of components: state it, "
                "or leave the mechanism out"
            )

    def _check_model(self, asked: Asked) -> None:
        if asked.mechanism != "spiked":
            if self.model is not None:
                raise InvalidParameterError("a model is for mechanism='spiked': leave it out")
            return
        if self.model is None:
            raise InvalidParameterError(
                "'spiked' protects tables of a stated model only: pass model=SpikedModel(...), or "
                "leave the mechanism out for a promise that holds for every table"
            )
        if not self.model.proven:
            raise InvalidParameterError(
                f"form={self.model.form!r} is not private and serves comparisons alone: leave form "
                "out of the model"
            )
        if asked.protects.owns_many:
            raise UnsupportedNotionError(
                "'spiked' assumes rows that are independent, not several of one person: leave "
                "groups and unit out, or choose another mechanism"
            )
        if not self.assume_centered:
            raise InvalidParameterError(
                "'spiked' assumes rows of mean zero: pass assume_centered=True"
            )
        if not (self.row_norm is None and self.bounds is None and self.scale is None):
            raise InvalidParameterError(
                "the model of 'spiked' bounds rows as they are: leave row_norm, bounds and scale "
                "out"
            )
        if self.on_missing == "centre":
            raise InvalidParameterError(
                "the model of 'spiked' is one of complete rows: leave on_missing out"
            )
        if not asked.adjacency.count_is_public:
            raise UnsupportedNotionError(
                "'spiked' needs a public number of rows: use adjacency='replace-one'"
            )
        if self.n_components not in (None, self.model.rank):
            raise InvalidParameterError(
                "the model has the number of components: leave n_components out"
            )

    def _model(self) -> tuple[Kind, str | None]:
        if self.model is None:
            return super()._model()
        return Kind.MODEL_BASED, self.model.assumption

    def _centring(self, asked: Asked) -> Centring:
        """How the centre is found, from public numbers."""
        if self.assume_centered:
            if self.centring is not None:
                raise InvalidParameterError("leave centring out where the rows are centred")
            return "none"
        clips = not self._normalises(asked.mechanism)
        free = asked.stated.private and self.bounds is None
        if self.centring is None and clips:
            return "located" if free else "mean"
        if self.centring is None:
            return free_centring(
                asked.budget,
                pure=asked.pure,
                n_rows=asked.n_rows,
                n_columns=asked.n_columns,
                private_scale=isinstance(self.scale, str),
            )
        if self.centring not in ("mean", "located", "paired"):
            raise InvalidParameterError("centring must be 'mean', 'located' or 'paired'")
        if self.centring == "mean" and self.bounds is None and (free or self.row_norm is None):
            raise BoundsRequiredError(
                "centring='mean' needs bounds=(low, high) or row_norm: state one, or leave "
                "centring out"
            )
        if asked.stated.private and self.centring == "located":
            return self.centring
        if (self.centring == "mean") != clips:
            raise InvalidParameterError(
                "centring='mean' is for rows that are clipped, 'located' and 'paired' are for "
                "rows scaled to unit length: leave centring out"
            )
        return self.centring

    def _plan(self, asked: Asked) -> Plan:
        normalise = self._normalises(asked.mechanism)
        variances = bool(self.variances) and normalise
        counted = asked.adjacency.count_is_public or (normalise and not variances)
        return Plan(
            pure=asked.pure,
            centring=self._centring(asked),
            normalise=normalise,
            bounded=self.bounds is not None,
            row_norm=asked.stated.clip.row_norm,
            n_rows=asked.n_rows,
            n_columns=asked.n_columns,
            max_rank=asked.n_components if isinstance(self.n_components, str) else None,
            scale=isinstance(self.scale, str),
            variances=variances,
            count=self.assume_centered and not counted,
            lazy=asked.lazy,
            radius=asked.stated.private,
            persons=asked.protects.owns_many,
        )

    def _about(self, asked: Asked) -> Callable[[float], Procedure[CentredResult[Any]]]:
        self._planned = plan = self._plan(asked)
        few = False
        if plan.variances or plan.radius:
            whole = self._strength(asked, Pure if asked.pure else Gaussian)
            few = plan.too_few(Allowance(whole, asked.pure))
        if plan.variances and few:
            raise InvalidParameterError(
                "too few rows for variances at this budget: leave variances out, or state row_norm"
            )
        if plan.radius and few:
            raise self._too_few()

        seen = replace(asked, n_rows=plan.n_differences, alone=plan.alone)

        def build(parameter: float) -> Procedure[CentredResult[Any]]:
            whole = Allowance(parameter, asked.pure)
            return plan.build(whole, self._inner(seen, plan.components(whole)))

        return build

    def _check_strength(self, asked: Asked, found: float) -> None:
        if asked.family.batches:
            plan = self._planned
            seen = replace(asked, n_rows=plan.n_differences, alone=plan.alone)
            method: Any = self._inner(seen, plan.components(Allowance(found, asked.pure)))
            method.check_records(asked.n_columns, seen.n_rows, plan.rows_each)

    def _read_once(self) -> InvalidDataError:
        return InvalidDataError(f"{super()._read_once()}; StreamingPCA needs one pass only")

    def _reads_once(self, asked: Asked, procedure: Procedure[Any]) -> bool:
        alone = isinstance(procedure, Uncentred) and len(self._planned.shares) == 1
        return alone and asked.family.one_pass

    def _words(self, stated: StatedBounds, result: CentredResult[Any]) -> tuple[str, ...]:
        words = list(stated.words_with(result.inner.row_norm) if stated.private else stated.words)
        match self._planned.centring:
            case "none":
                words.append("the origin is taken as the centre")
            case "mean":
                words.append("the centre is a private mean")
            case "located":
                within = "within the stated range" if self._planned.bounded else "without a bound"
                words.append(f"the centre is private, found {within}")
            case "paired":
                words = ["none needed: differences of pairs of rows, each scaled to unit length"]
                if self._planned.bounded:
                    words.append("the stated range is not used")
        words += self._scale_words(result)
        if result.inner.row_norm is not None and not stated.private:
            words.append(
                f"rows pulled in to {result.inner.row_norm * self._pair:.6g} for the variances "
                "(chosen privately)"
            )
        return tuple(words)

    @property
    def _pair(self) -> float:
        """From half differences of two rows to what has the covariance of one."""
        return math.sqrt(2) if self._planned.centring == "paired" else 1.0

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the components of ``X``: an array, a data frame, a path, or chunks.

        ``groups`` holds an id for each row: all rows of one id are protected together.
        """
        with self._renewed():
            outcome = self._release(X, groups)
        del X, groups
        self.plan_ = self._planned
        staged: StagedComponents = outcome.result.inner
        noisy = staged.components
        # Of normalised rows only shares mean anything, and no count is needed for them.
        positive = np.maximum(noisy.eigenvalues, 0.0)
        whole = max(noisy.trace, float(positive.sum())) or 1.0
        unit = 1 / whole if self.plan_.normalise else outcome.per_row
        self._place(outcome, noisy.components)
        self.explained_variance_ratio_ = positive / whole
        self.explained_variance_ = positive * unit
        if staged.variance is not None:
            inside = float(positive.sum()) or 1.0
            variance = staged.variance * self._pair**2 * outcome.per_row
            self.explained_variance_ = positive / inside * variance
        self.n_components_ = len(self.components_)
        self.n_samples_ = outcome.n_rows
        rows = outcome.n_rows or outcome.result.noisy_count or np.nan
        self.singular_values_ = np.sqrt(self.explained_variance_ * rows)
        self.reliability_ = noisy.reliability
        self.privacy_ = outcome.guarantee
        settings = self._trust(outcome, noisy, unit)
        if outcome.stated.private:
            self.row_norm_ = settings["chosen_row_norm"] = outcome.stated.clip.row_norm
        self.release_ = Release(
            kind="pca",
            mechanism=outcome.mechanism,
            guarantee=outcome.guarantee,
            settings=settings,
            arrays=self._arrays(positive * unit),
        )
        return self

    def _place(self, outcome: Outcome[Any], components: NDArray[np.float64]) -> None:
        """Components, centre and scale for all columns, in the units of the data."""
        d = self.n_features_in_
        self.scale_ = self._scales(outcome.result)
        kept = np.flatnonzero(np.isfinite(self.scale_))
        self.components_ = np.zeros((len(components), d))
        self.components_[:, kept] = components
        self.mean_ = np.zeros(d)
        self.mean_[kept] = outcome.result.centre * self.scale_[kept]

    def _trust(self, outcome: Outcome[Any], noisy: NoisyComponents, unit: float) -> dict[str, Any]:
        """What stands out from the noise; the settings of the release."""
        error = outcome.result.centre_error
        settings = self._settings(outcome, noisy.noise_scale, noisy.law, unit=unit, error=error)
        law = None if noisy.law is None else noisy.law.scaled(unit)
        if law is None:
            self.matrix_floor_ = noisy.floor * unit
            floor = without_law(self.matrix_floor_, error, noisy.components.shape[1])
            self.noise_floor_ = floor if noisy.floor else 0.0
        else:
            self.matrix_floor_ = law.floor()
        if self.plan_.normalise:  # shares end at 1
            self.noise_floor_ = max(self.matrix_floor_, min(1.0, self.noise_floor_))
        values = np.maximum(noisy.eigenvalues, 0.0) * unit
        floors = self.matrix_floor_, self.noise_floor_
        self.distinguishable_ = standing_out(values, self.reliability_, floors, error)
        self.shares_ = {stage: round(share, 12) for stage, share in self.plan_.shares.items()}
        return {
            **settings,
            "noise_floor": self.noise_floor_,
            "matrix_floor": self.matrix_floor_,
            "centring": self.plan_.centring,
            "shares": self.shares_,
        }

    @property
    def noise_variance_(self) -> float:
        """Variance of a direction beside the components: what is left over, spread evenly."""
        check_is_fitted(self)
        others = int(np.isfinite(self.scale_).sum()) - self.n_components_
        if others <= 0:
            return 0.0
        if self.model is not None:
            return self.model.noise_variance
        share = float(self.explained_variance_ratio_.sum())
        whole = float(self.explained_variance_.sum()) / share if share else 0.0
        return max(0.0, whole * (1 - share)) / others

    @property
    def _regular(self) -> bool:
        """Whether `get_covariance` has an inverse on the columns that were not left out."""
        full = int(np.isfinite(self.scale_).sum()) == self.n_components_
        return bool(self.explained_variance_.min() > 0 and (full or self.noise_variance_ > 0))

    def get_covariance(self) -> NDArray[np.float64]:
        """The covariance that the components and what is left over stand for (scaled columns).

        Variance beside the components is spread evenly; post-processing.
        """
        check_is_fitted(self)
        noise = self.noise_variance_
        beside = self.explained_variance_ - noise
        covariance: NDArray[np.float64] = (self.components_.T * beside) @ self.components_
        kept = np.isfinite(self.scale_)  # columns that were left out have no variance here
        np.fill_diagonal(covariance, covariance.diagonal() + np.where(kept, noise, 0.0))
        return covariance

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Log-likelihood of every row of ``X``. It is NOT private with respect to ``X``.

        That of a Gaussian with the released centre and `get_covariance`, over the columns that
        were not left out. There is one only where variances are in the units of the data and a
        centre was released: with ``row_norm``, with ``variances``, or of a ``model``.
        """
        return self._per_row(X, self._log_density)

    def _log_density(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        kept = np.isfinite(self.scale_)
        loadings, noise = self.components_[:, kept], self.noise_variance_
        others = int(kept.sum()) - self.n_components_
        rows = self._floats(rows, self.mean_)
        scores = self._projection().scores(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (rows[:, kept] - self.mean_[kept]) / self.scale_[kept]
            distance = np.sum(scores**2 / self.explained_variance_, axis=1)
            if others:
                distance += np.sum((scaled - scores @ loadings) ** 2, axis=1) / noise
        volume = np.log(self.explained_variance_).sum() + 2 * np.log(self.scale_[kept]).sum()
        volume += others * math.log(noise) if others else 0.0
        density: NDArray[np.float64] = -(distance + volume + kept.sum() * math.log(2 * math.pi)) / 2
        return density

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`, of the rows that have one; NOT private either."""
        return mean_score(self.score_samples(X))
