"""Principal components under differential privacy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from eigenveil.estimators.base import (
    fit_release,
    fitting,
    foresee_release,
    warn_of_columns,
    warn_of_empty_cells,
    warn_of_guessed_deviations,
    warn_of_turns,
)
from eigenveil.estimators.results import (
    component_result,
    limits_of,
    noise_of_means,
    public_settings,
    singular_values,
    warn_of_components,
)
from eigenveil.estimators.scores import GaussianDensity
from eigenveil.mechanisms.component_stages import StagedComponents
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.planning.bounds import OnInvalid, OnMissing, RowNorm
from eigenveil.planning.execution import FitResult
from eigenveil.planning.request import Centring
from eigenveil.privacy.clauses import KNOWN_TURN
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Ledger


class PrivatePCA(GaussianDensity):
    """Leading principal components, released once with differential privacy.

    ``PrivatePCA(5, epsilon=1, delta=1e-6).fit(X)`` needs no bound. Rows are scaled to unit length
    about a private centre, so that only their directions count. Where the budget is generous, rows
    are clipped at a private radius instead, which aims at the covariance's own directions and
    eigenvalues; ``row_norm="private"`` always asks for these, at more noise.

    Parameters
    ----------
    n_components : int, float or "private", optional
        How many components to release; all of them by default. A number between 0 and 1 releases
        the fewest that hold this share of the noisy variance, at no further cost, and two or more
        with ``show_scores``. ``"private"``
        finds how many stand out with a tenth of the budget, or says that none do.
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, ``rho`` alone, or ``epsilon`` alone for
        a pure guarantee.
    mechanism : str or ComponentMechanism
        How noise is added: a name, or one of `eigenveil.mechanisms.pca` with options, such as
        ``Power(passes=6)``. ``"auto"`` lets the planner choose from public numbers and records why:
        ``"tangent"`` as a rule, ``"analyze-gauss"`` with ``row_norm`` or where the budget is
        generous, ``"wishart"`` for a pure guarantee. ``eigenveil mechanisms`` lists all.
    row_norm : float or "private", optional
        Clip rows at this public distance from the centre, instead of scaling them to unit length.
        ``"private"`` finds one with a tenth of the budget at most. A generous one is lowered
        privately. With ``scale`` it is a distance of scaled rows.
    bounds : (low, high) or {name: (low, high)}, optional
        Public range of the columns: two numbers, two arrays with one number per column, or a range
        for each column by name, in the units of the data. Ranges are never needed; they tighten
        what is found privately.
    centring : {"none", "mean", "located", "paired"}, optional
        How to find the centre. ``"none"`` takes the origin. ``"mean"`` buys a private mean within a
        stated bound, with 0.1 of the budget (0.2 of a pure one). ``"located"`` needs no bound: two
        means and up to three searches, whose share falls as rows are added. ``"paired"`` takes
        differences of pairs of rows, which have no centre, at twice the noise. The default is
        ``"paired"`` below max(72, 14 sqrt(d))/mu rows ((1000 + 100 d)/epsilon for a pure budget),
        and ``"located"`` above.
    scale : array of shape (n_features,), {name: number}, "private" or "same", optional
        Public scales that columns are divided by. ``"private"`` releases components of standardised
        columns: eigenvectors of the correlations of a covariance that is released first. Columns
        of which noise hides the variance are named in ``hidden_``. From 1,000 columns on, with more
        columns than rows, and for a mechanism that is named, columns are divided by rough private
        scales instead, and one without a scale is left out. By default, or with ``"same"``, columns
        are taken as they are.
    variances : bool
        Buy the variance inside the components in the units of the data, with 0.05 of the budget and
        a search for distances. Needed only where rows are scaled to unit length. One total, of rows
        clipped where noise and loss are least, is divided by the shares of unit rows.
    show_scores : bool, str or {str: list of str}
        Buy a map of where rows lie on the first two components, with a tenth of the budget. The map
        may be published; scores themselves may not. The name of a column buys a map for each of its
        levels, stated in a list or found privately. The column need not be analysed:
        ``open_rows(frame, drop=["sex"])``.
    adjacency : {"replace-one", "add-remove"}
        Which tables count as neighbours. Under ``"add-remove"`` the number of rows is private.
    on_invalid : {"raise", "zero"}
        Whether a row with a missing or infinite value stops the fit or contributes nothing. Under
        ``"replace-one"`` such rows are still counted: variances shrink by their share.
    on_missing : {"invalid", "centre"}
        Whether an empty cell (NaN) makes its row invalid or is taken as the centre's. Shares of
        present cells are then released with 0.05 of the budget, those of pairs of columns with as
        much again where rows are many, and moments corrected for them. `transform` fills such cells
        with ``mean_``.
    ledger : Ledger or path, optional
        Charged before any noise is drawn; refuses what it cannot cover.
    random_state : int, optional
        Seed of a simulation. A seeded fit is marked as not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Directions of largest variance, as rows.
    reproducibility_ : array of shape (n_components,)
        Expected squared cosine between each component and the one of the same rank that the same
        rows would give without noise, as this release saw them (about its centre, scaled, pulled in
        or of unit length). Directions of nearly the same variance mix, which does count. NaN where
        the law of the noise is not known. Nothing is said about other samples or other releases.
    component_groups_ : tuple of ComponentGroup
        Runs of components that can be told apart from all others, but not from each other, with
        the share that is right of each run together; ``str`` makes a sentence of one.
    loading_errors_ : array of shape (n_components, n_features)
        Standard error of every loading, from noise alone, about the same component without noise.
        A sign is certain where a loading lies more than three of them from zero.
    reliability_ : array of shape (n_components,)
        Agreement of the span: the expected squared cosine between each component and the span of
        those that the same rows would give without noise. It is 0 where a component cannot be told
        from noise, or is one of many like it. Directions of nearly the same variance may mix, which
        does not count as an error: see ``reproducibility_`` for single components. Unit rows are
        compared with unit rows: where a few rows hold most of the variance, the covariance has
        other components; ``row_norm="private"`` asks for those.
    distinguishable_ : array of shape (n_components,)
        Whether each component stands out from the noise of the matrix. The error of the centre may
        add one component; where it could, the likeliest one is marked as that error, or each one
        that may be, where columns are too few to tell.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays
        Noisy eigenvalues (never below zero), their share of the noisy trace, and the square
        root of eigenvalue times number of rows (NaN where that is private and not needed). By
        default shares of the variance of normalised rows, which add to at most 1; in squared units
        of the data where rows are clipped, or with ``variances``.
    noise_variance_ : float
        Variance of a direction outside the components, in the units of ``explained_variance_``.
    captured_ : Captured or None
        What the components hold of the variance of rows as they were clipped, or of unit rows:
        ``share``, and ``of_best``, the share of what the best as many directions hold, each with
        its standard error by noise (``share_noise``, ``of_best_noise``). Bought with 0.02 of the
        budget. None where all columns' components are released, where no matrix is formed or rows
        can be read once only, where noise would hide it, where no component stands out, and where
        the error of the centre may be a tenth of the variance.
    mean_ : array of shape (n_features,)
        The released centre. ``"paired"`` finds none: then NaN, scores are those of rows as they
        are, with a warning, and `inverse_transform` refuses. Zero for a column that is left out.
    scale_ : array of shape (n_features,)
        What columns are divided by, infinite for a column that is left out; ones by default. The
        released standard deviations of standardised columns.
    hidden_ : list of int
        Of standardised columns: those of which noise hides the variance, so that their ``scale_``
        is a guess and their loadings are rough.
    mean_noise_ : array of shape (n_features,)
        Standard deviation of the noise on each entry of ``mean_``, as far as it is known from
        public numbers and what was found; NaN for a column that is left out, or without a mean.
    mechanism_, choice_ : str
        The mechanism, and why ``"auto"`` chose it.
    row_norm_ : float
        Where rows were clipped, if that was chosen privately.
    unit_distance_ : float
        Where rows are scaled to unit length about a private centre: rows nearer to it than this
        distance, of scaled columns, were divided by it instead.
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
        epsilon, searches among them.
    score_counts_, score_reach_ : arrays of shape (bins, bins) and (2,)
        With ``show_scores``: noisy counts of rows by cell, along the first component and then the
        second, of a frame that reaches so far from the centre; in units of the data, or of unit
        rows where components are theirs.
    kind_score_counts_ : array of shape (levels + 1, bins, bins)
        Such counts for each level of a column, ``score_kinds_.levels``, and for all other rows.
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

    def __init__(
        self,
        n_components: int | float | Literal["private"] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str | ComponentMechanism = "auto",
        row_norm: RowNorm | None = None,
        bounds: Any = None,
        centring: Centring | None = None,
        scale: Any = None,
        variances: bool = False,
        show_scores: bool | str | Mapping[str, Sequence[str]] = False,
        adjacency: str = "replace-one",
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.bounds = bounds
        self.centring = centring
        self.scale = scale
        self.variances = variances
        self.show_scores = show_scores
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the components of ``X``: an array, a data frame, a path, or chunks.

        ``groups`` holds an id for each row: all rows of one id are protected together.
        """
        with fitting(self) as (noise, ledger):
            fitted = fit_release(
                self, X, groups, "components", noise=noise, ledger=ledger, **self._asked()
            )
            del X, groups
            self._hold(fitted)
        # A warning may be made an error, which must not lose the release.
        warn_of_columns(self)
        warn_of_guessed_deviations(self)
        warn_of_turns(self)
        corrects = fitted.plan.corrects_missing
        warn_of_empty_cells(self, fitted.result.pairs_present, corrects=corrects)
        warn_of_components(self)
        return self

    def promise(self, X: Any) -> Guarantee:
        """Return what a fit of ``X`` would promise; nothing is charged, rows are counted only."""
        return foresee_release(self, X, "components", **self._asked())

    def _asked(self) -> dict[str, Any]:
        """Return what is asked for beside what all releases have."""
        return {
            "n_components": self.n_components,
            "variances": bool(self.variances),
            "captured": True,
            "show_scores": self.show_scores,
        }

    def _hold(self, fitted: FitResult[StagedComponents]) -> None:
        """Set what follows from a release."""
        plan, released, staged = fitted.plan, fitted.result, fitted.result.inner
        request = plan.request
        clipped = released.scale if released.scale is not None else request.column_scale
        clipped = np.ones(self.n_features_in_) if clipped is None else clipped
        scale, centre, error = staged.standardised(clipped, released.centre, released.centre_error)
        variance = staged.variance
        if variance is not None:
            variance *= fitted.result.pair_factor**2 * fitted.per_row
        found = component_result(
            staged.components,
            centre=centre,
            centre_error=error,
            scale=scale,
            shares=plan.normalise,
            per_row=fitted.per_row * fitted.result.pair_factor**2,
            variance=variance,
            laplace=plan.pure,
        )
        if request.variance_share is not None:
            count = staged.components.count_holding(request.variance_share, plan.fewest)
            found = found.leading(count)
        self.__dict__.update(found.attributes())
        self.plan_, self.mechanism_, self.choice_ = plan, plan.entry.name, request.reason
        self.n_samples_ = fitted.n_rows if fitted.drawn_rows is None else fitted.drawn_rows
        self.privacy_ = fitted.guarantee
        rows = self.n_samples_ or released.noisy_count
        self.singular_values_ = singular_values(self.explained_variance_, rows)
        self.shares_ = fitted.shares
        settings = public_settings(
            n_features=self.n_features_in_,
            n_rows=fitted.n_rows,
            stated=fitted.stated,
            centred=request.centred,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
            noise_scale=found.noise_scale,
            noise_floor=found.noise_floor,
            reason=request.reason,
            feature_names=getattr(self, "feature_names_in_", None),
            balance=fitted.balance,
            encoding=getattr(self, "encoding_", None),
        )
        centring = "paired" if released.differences else plan.centring
        settings |= {"centring": centring, "shares": self.shares_}
        bought = centring in ("mean", "located")
        if bought:
            settings["centre_noise"] = fitted.centre_noise
        turn, arrays = released.turn, {}
        level = fitted.centre_noises if bought else np.nan
        if turn is not None:
            arrays["turn"] = self.turn_ = turn * clipped
            level = np.where(turn < KNOWN_TURN, np.inf, level)
        self.mean_noise_ = noise_of_means(level, clipped)
        self.mean_noise_[np.isinf(scale)] = np.nan
        chosen = staged.row_norm if plan.tightens or plan.entry.standardises else None
        settings |= limits_of(released, chosen)
        if chosen is not None:
            self.row_norm_ = settings["chosen_row_norm"]
        if staged.deviations is not None:
            arrays["clipping_scale"] = clipped
            self.hidden_ = settings["hidden_columns"] = staged.hidden_columns(clipped)
        if released.unit_distance:
            self.unit_distance_ = settings["unit_distance"] = released.unit_distance
        self.captured_ = staged.captured if found.states_captured else None
        if self.captured_ is not None:
            settings["captured"] = self.captured_._asdict()
            if staged.standardised_norm is not None:
                settings["captured"]["row_norm"] = staged.standardised_norm
        shown = staged.scores
        if shown is not None:
            self.score_counts_, self.score_reach_ = shown.counts, shown.reach
            settings["scores"] = {"outside": shown.outside, "noise": shown.deviation}
            arrays |= {"score_counts": shown.counts, "score_reach": shown.reach}
            if shown.by_kind is not None:
                kinds = self.score_kinds_
                self.kind_score_counts_ = arrays["kind_score_counts"] = shown.by_kind
                settings["scores"] |= {"column": kinds.column, "levels": list(kinds.levels or ())}
        self.release_ = found.release(
            plan.entry.name, fitted.guarantee, settings, arrays=arrays, proofs=fitted.proofs
        )
