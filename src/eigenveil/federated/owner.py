r"""An owner of records in a federation: answers two questions, each once, and pays for them.

The first answer is a basis, `PrivatePCA` with a share of the owner's budget. The second is about
the basis U that the coordinator made of all answers: `inside`, the shares of variance along U of
rows scaled to unit length, or, if variances are asked for, `PrivateCovariance` on

.. math:: y = U'(x - c_1)

with c_1 the centre that the first answer had to find, and on lengths of rows beside U. The whole
(epsilon, delta) stands for a mu; the first answer has ``share`` of its square, the second the
largest strength with which both together, composed exactly with all searches inside, stay within
(epsilon, delta).

What a coordinator can do to an owner: it is not trusted. It chooses U freely, knowing the first
answer, and the promise holds for every U: y is a function of its own record and of U, and is
clipped at a length that is stated or privately found, or scaled to unit length, before noise of
that size is added. What the second answer costs does not depend on the first one, as composition
needs it: the number of components and the unit are fixed by the first question. It can ask again,
and gets the same bytes; it can ask something else in the same round, and gets none; it can leave
the second question out, and only the first answer is spent. Of a failure it learns a `Code`. That
of bad rows (``on_invalid="raise"``) depends on the records and is not protected, as in any fit; U
has no influence on it. How long an answer takes is not protected either. Proof:
docs/proofs/owner.md.
"""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import LARGEST_NORM, Clip
from eigenveil.data.frames import is_frame, names
from eigenveil.data.gram import public_rows
from eigenveil.data.projected import BesideSource, ProjectedSource
from eigenveil.data.source import (
    ArraySource,
    RowSource,
    ScaledSource,
    as_table,
    open_rows,
    protected,
)
from eigenveil.estimators.bounds import RowNorm, box_of, ranges_by_name
from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import (
    BudgetExceededError,
    BusyError,
    EigenveilError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NothingFoundError,
)
from eigenveil.federated.answers import Answers
from eigenveil.federated.messages import (
    WEAKEST,
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Message,
    ProtocolError,
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    check_name,
    columns_digest,
    decode,
    encode,
)
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.inside import Inside
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.planner.stages import too_few
from eigenveil.privacy.accounting import compose, epsilon_of, split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Gaussian
from eigenveil.privacy.guarantee import (
    Guarantee,
    Numerics,
    guarantee_from_dict,
    guarantee_to_dict,
)
from eigenveil.privacy.ledger import Ledger

__all__ = ["Owner", "OwnerSettings"]

_LOG = logging.getLogger(__name__)
_DIRECTIONS = ("spherical", "tangent")  # which use no length of rows
_REST_SHARE = 0.2  # of mu^2 of the second answer, for the variance beside the basis
# The first that fits; of whatever else happens nobody is told more than that it did.
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (BudgetExceededError, Code.BUDGET),
    (LedgerError, Code.BUDGET),
    (NothingFoundError, Code.NOTHING_FOUND),
    (InvalidDataError, Code.DATA),
    (InvalidParameterError, Code.SETTINGS),
    (BusyError, Code.BUSY),
)

Answer = tuple[Message, dict[str, Any]]  # and what is noted beside it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnerSettings:
    """How an owner takes part; all of it public.

    Attributes
    ----------
    owner, federation : str
        Names. Questions of another federation are refused.
    epsilon, delta : float
        The whole budget, for both answers.
    share : float
        Of mu^2, for the basis; the same for all owners.
    mechanism : str
        Of the basis: any of `PrivatePCA` that needs no model.
    row_norm : float or "private", optional
        Where rows are clipped: in the first round unless its mechanism uses directions only, in the
        second by default at a length that is found privately.
    bounds, assume_centered, centring, lazy, on_invalid, on_missing
        As in `PrivatePCA`. In the second round entries are clamped to the bounds, and an empty cell
        lies at the centre that the first round found.
    scale : array, optional
        Public numbers that columns are divided by, the same for all owners.
    columns : sequence of str, optional
        Of a file: which to use, in this order.
    unit : str, optional
        Of a file: the column that says whose a row is. All rows of one person are protected
        together.
    random_state : int, optional
        Seed of a simulation, which protects nobody.

    """

    owner: str
    federation: str
    epsilon: float
    delta: float
    share: float = 0.8
    mechanism: str = "spherical"
    row_norm: RowNorm | None = None
    bounds: Any = None
    assume_centered: bool = False
    centring: Literal["mean", "located", "paired"] | None = None
    scale: Any = None
    lazy: bool | None = None
    on_invalid: Literal["raise", "zero"] = "raise"
    on_missing: Literal["invalid", "centre"] = "invalid"
    columns: tuple[str, ...] | None = None
    unit: str | None = None
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_name("owner", self.owner)
        check_name("federation", self.federation)
        if self.budget.is_pure:
            raise InvalidParameterError("an owner states epsilon and delta: give both")
        known = [name for name in PrivatePCA.mechanisms if name != "spiked"]
        if self.mechanism not in known:
            listed = ", ".join(map(repr, known))
            raise InvalidParameterError(f"the mechanism of an owner must be one of: {listed}")
        number = isinstance(self.share, Real) and not isinstance(self.share, bool)
        if not (number and 0 < self.share < 1):
            raise InvalidParameterError("share must lie between 0 and 1")
        for name in ("epsilon", "delta", "share"):  # 1 and 1.0 are the same settings
            object.__setattr__(self, name, float(getattr(self, name)))
        try:
            json.dumps(self.as_dict(), allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                "the settings of an owner are finite numbers and words: leave out what has no bound"
            ) from None
        if isinstance(self.scale, str):
            raise InvalidParameterError(
                "scales are the same for all owners: give one number for each column"
            )

    @property
    def budget(self) -> Budget:
        """Of both answers together."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {name: _plain(value) for name, value in asdict(self).items()}


class Owner:
    """Answers the questions of a coordinator.

    Parameters
    ----------
    settings : OwnerSettings
        What is public.
    rows : path, array, frame or RowSource
        The records; read again in every round.
    ledger : Ledger, optional
        Charged before every answer. Left out in a simulation, and only there.
    folder : path, optional
        Where answers are kept, readable by nobody else; in memory in a simulation without one.
    log : callable
        Hears one line about every refusal, for the owner's own eyes.

    """

    def __init__(
        self,
        settings: OwnerSettings,
        rows: Any,
        ledger: Ledger | None = None,
        folder: str | Path | None = None,
        *,
        log: Callable[[str], None] = _LOG.warning,
    ) -> None:
        simulated = settings.random_state is not None
        if (ledger is None) != simulated:
            raise InvalidParameterError(
                "an owner has a ledger, a simulation has none: give a ledger or a random_state"
            )
        if folder is None and not simulated:
            raise InvalidParameterError("an owner needs a state folder, so as not to spend twice")
        if ledger is not None and ledger.budget.delta is None:
            # Both answers are sure to fit in a ledger of their own notion only.
            raise InvalidParameterError(
                "the ledger of an owner must grant epsilon and delta: create such a one"
            )
        self.settings = settings
        self._ledger, self._log = ledger, log
        self._names, source = _opened(rows, settings)
        if not source.rereadable:
            raise InvalidDataError("both rounds read the rows: give a file or an array")
        d = source.n_columns
        self._ranges = settings.bounds
        if isinstance(settings.bounds, Mapping):
            self._ranges = ranges_by_name(settings.bounds, self._names)
        self._scale = _scale(settings, d)
        self._rows = source
        payer = None if ledger is None else ledger.id
        terms = {"settings": settings.as_dict(), "ledger": payer}
        self._answers = Answers(None if folder is None else Path(folder).resolve(), terms)
        with self._answers.opened():  # a folder of something else is noticed now
            pass

    def answer(self, question: bytes) -> bytes:
        """The answer to a question, or a refusal: a code and nothing else. It never raises."""
        try:
            return self._answer(question)
        except Exception as error:  # whatever it is, nothing of it leaves
            return encode(self._refusal(error))

    def _answer(self, question: bytes) -> bytes:
        asked: Any = decode(question, Invitation, BasisQuestion, ValuesQuestion)
        if asked.federation != self.settings.federation:
            raise ProtocolError(Code.FEDERATION)
        if isinstance(asked, (BasisQuestion, ValuesQuestion)):
            return self._once(asked, question)
        self._check_terms(asked)
        return encode(self._declaration(asked.unit))

    def _refusal(self, error: Exception) -> Refusal:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)
        if isinstance(error, ProtocolError):
            code = error.code
        # Messages of the library hold nothing of records; those of others might.
        said = str(error) if isinstance(error, EigenveilError) else type(error).__name__
        self._log(f"refused ({code}): {said}")
        return Refusal(federation=self.settings.federation, owner=self.settings.owner, code=code)

    def _check_terms(self, asked: Invitation) -> None:
        """The same columns in the same order, the same scales, the same part for the basis."""
        if asked.share != self.settings.share:
            raise InvalidParameterError(
                f"the federation has share = {asked.share:g} and these settings "
                f"{self.settings.share:g}: agree on one"
            )
        if asked.n_columns != self._rows.n_columns:
            self._log(
                f"the federation has {asked.n_columns} columns and this table "
                f"{self._rows.n_columns}: compare columns with the agreement"
            )
            raise ProtocolError(Code.COLUMNS)
        agreed = (columns_digest(names, self._scale) for names in (self._names, None))
        if asked.columns not in agreed:
            self._log(
                "the federation has other columns, another order of them or other scales: compare "
                "columns and scale with the agreement"
            )
            raise ProtocolError(Code.COLUMNS)

    def _declaration(self, unit: str) -> Declaration:
        """What would fail later had better be known before the first answer is paid for."""
        settings = self.settings
        if not self._paid("basis"):
            self._check_ledger()
        self._check_length(unit)
        return Declaration(
            federation=settings.federation,
            owner=settings.owner,
            n_records=public_rows(self._rows),
            epsilon=settings.epsilon,
            delta=settings.delta,
            mechanism=settings.mechanism,
        )

    def _check_ledger(self) -> None:
        """Whether it can pay for both answers."""
        if self._ledger is not None:
            whole = Gaussian(whole_strength(self.settings.budget, pure=False))
            unit = protected(self._rows)
            self._ledger.check(whole, adjacency=Adjacency.REPLACE_ONE, unit=unit)

    def _check_length(self, unit: str, left: float | None = None) -> None:
        """Variances need a length of rows: one that is stated, or can be found with what is left.

        How much that will be about, as long as nothing is spent.
        """
        if unit == "shares" or isinstance(self.settings.row_norm, Real):
            return
        if left is None:
            whole = whole_strength(self.settings.budget, pure=False)
            left = whole * math.sqrt(1 - self.settings.share)
        second = Allowance(left, pure=False).part(_REST_SHARE)
        if too_few(second, public_rows(self._rows)):
            raise InvalidParameterError(
                "too few rows to find their length, which variances need: state row_norm"
            )

    def _once(self, asked: BasisQuestion | ValuesQuestion, question: bytes) -> bytes:
        """Answer a round's question, or send what was answered before."""
        name = "basis" if isinstance(asked, BasisQuestion) else "values"
        digest = hashlib.sha256(question).hexdigest()
        with self._answers.opened():
            kept = self._answers.find(name)
            if kept is not None:
                if kept.question != digest:
                    raise ProtocolError(Code.OTHER_QUESTION)
                if kept.answer is not None:
                    return kept.answer
            if self._paid(name) or (kept is not None and self._ledger is None):
                raise ProtocolError(Code.INTERRUPTED)  # for what came of that, nothing is known
            work = self._prepared(asked)
            self._answers.begin(name, digest)
            notes: dict[str, Any] = {}
            try:
                message, notes = work()
            except Exception as error:
                message = self._refusal(error)
                if self._ledger is not None and not self._paid(name):
                    self._answers.forget(name)  # nothing was charged: it may be asked again
                    return encode(message)
            answer = encode(message)
            self._answers.keep(name, digest, answer, notes)
            return answer

    def _prepared(self, asked: BasisQuestion | ValuesQuestion) -> Callable[[], Answer]:
        """What is to be done, unless public numbers tell that it cannot be."""
        if isinstance(asked, BasisQuestion):
            self._check_terms(asked)
            self._check_ledger()
            self._check_length(asked.unit)
            return partial(self._basis, asked)
        before = self._answers.find("basis")
        if before is None or "guarantee" not in before.notes:
            raise ProtocolError(Code.OTHER_QUESTION)  # this one comes second
        if asked.basis.shape != (self._rows.n_columns, before.notes["n_components"]):
            raise ProtocolError(Code.SHAPE)
        return partial(self._values, asked.basis, before.notes)

    def _label(self, name: str) -> str:
        """By which the ledger knows a charge of this federation; it makes each once."""
        return f"{self.settings.federation} {name}"

    def _paid(self, name: str) -> bool:
        """Whether the ledger holds a charge for a round."""
        labels = {self._label(name), self._label(f"{name}, beside")}
        entries = () if self._ledger is None else self._ledger.entries
        return any(entry.label in labels for entry in entries)

    def _basis(self, asked: BasisQuestion) -> Answer:
        settings = self.settings
        first = _first_budget(settings.budget, settings.share)
        sent = asked.n_directions
        more = sent > asked.n_components
        pca = _Basis(
            min(sent + more, asked.n_columns),  # the next one tells how strong these are
            epsilon=first.epsilon,
            delta=first.delta,
            mechanism=settings.mechanism,
            row_norm=None if self._directions else settings.row_norm,
            bounds=self._ranges,
            assume_centered=settings.assume_centered,
            centring=self._centring(asked.unit),
            scale=self._scale,
            lazy=settings.lazy,
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
            ledger=self._ledger,
            random_state=settings.random_state,
        )
        pca._label = self._label("basis")
        pca.fit(self._rows)
        promise = replace(
            pca.privacy_,
            budget=settings.budget,
            bounds=tuple(f"basis: {words}" for words in pca.privacy_.bounds),
            ledger=_receipt(pca.privacy_.ledger),
        )
        answer = BasisAnswer(
            federation=settings.federation,
            owner=settings.owner,
            guarantee=guarantee_to_dict(promise),
            basis=np.ascontiguousarray(pca.components_[:sent].T),
            strengths=_strengths(pca.explained_variance_, sent) if more else np.ones(sent),
        )
        centre = (pca.mean_ / pca.scale_).tolist()
        return answer, {
            "guarantee": answer.guarantee,
            "centre": centre,
            "centred": pca.plan_.centring != "paired",
            "n_components": asked.n_components,
            "unit": asked.unit,
        }

    def _centring(self, unit: str) -> Literal["mean", "located", "paired"] | None:
        """Variances need a centre that is known, which differences of pairs do not have."""
        settings = self.settings
        free = settings.centring is None and not settings.assume_centered
        return "located" if free and unit == "variances" and self._directions else settings.centring

    @property
    def _directions(self) -> bool:
        return self.settings.mechanism in _DIRECTIONS

    def _values(self, basis: NDArray[np.float64], notes: Mapping[str, Any]) -> Answer:
        settings, first = self.settings, guarantee_from_dict(notes["guarantee"])
        left = strength(settings.budget, lambda mu: compose(first.cost, Gaussian(mu)), Inside.name)
        self._check_length(notes["unit"], left)  # before anything is paid for
        if notes["unit"] == "shares":
            found, promise = self._shares(basis, left, first, notes)
        else:
            # Beside as many directions as columns there is nothing.
            whole = basis.shape[0] == basis.shape[1]
            rest, promise = (0.0, first) if whole else self._rest(basis, left, first, notes)
            found, promise = self._variances(basis, promise, notes)
            found = replace(found, rest=rest)
        answer = ValuesAnswer(
            federation=settings.federation,
            owner=settings.owner,
            guarantee=guarantee_to_dict(promise),
            rest=found.rest,
            noise_scale=found.noise_scale,
            centred=found.centred,
            matrix=(found.matrix + found.matrix.T) / 2,
            centre=found.centre,
        )
        return answer, {}

    def _shares(
        self, basis: NDArray[np.float64], mu: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_Inside", Guarantee]:
        """Of rows scaled to unit length about the first centre, or of differences of pairs."""
        centre, known = np.array(notes["centre"]), bool(notes["centred"])
        step = Inside(mu=mu, basis=basis, paired=not known)
        unit = protected(self._rows)
        if self._ledger is not None:
            self._ledger.check(step.cost(), adjacency=before.adjacency, unit=unit)
        seed = self.settings.random_state
        gate = Gate(
            step.cost(),
            label=self._label("values"),
            adjacency=before.adjacency,
            ledger=self._ledger,
            noise=SystemSource() if seed is None else SimulationSource(seed + 1),
            protects=unit,
            once=True,
        )
        noisy = step.run(*self._about(centre), gate)
        found = _Inside(
            matrix=noisy.matrix,
            rest=1 - float(np.trace(noisy.matrix)),
            centre=basis.T @ centre if known else np.zeros(basis.shape[1]),
            centred=known,
            noise_scale=noisy.noise_scale,
        )
        promise = replace(
            before,
            cost=gate.total,
            bounds=(f"none needed for shares: {'' if known else 'pairs of '}rows of unit length",),
            numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
            ledger=gate.receipt,
        )
        return found, _together(before, promise)

    def _rest(
        self, basis: NDArray[np.float64], left: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple[float, Guarantee]:
        """The variance beside the basis, of lengths clipped where that is stated or found."""
        settings = self.settings
        part = _part(left, _REST_SHARE, settings.delta * (1 - settings.share))
        covariance = self._gauss(part)
        covariance.assume_centered, covariance._label = True, self._label("values, beside")
        rows, clip = self._about(np.array(notes["centre"]))
        covariance.fit(BesideSource(rows, clip, basis))
        promise = replace(covariance.privacy_, budget=settings.budget)
        return float(covariance.covariance_[0, 0]), _together(before, promise)

    def _gauss(self, budget: Budget) -> PrivateCovariance:
        """A matrix as it is, so that averages have no bias."""
        settings = self.settings
        covariance = PrivateCovariance(
            epsilon=budget.epsilon,
            delta=budget.delta,
            mechanism="gauss",
            row_norm="private" if settings.row_norm is None else settings.row_norm,
            assume_centered=settings.assume_centered,
            on_invalid=settings.on_invalid,
            ledger=self._ledger,
            random_state=settings.random_state,
        )
        covariance._label = self._label("values")
        return covariance

    def _variances(
        self, basis: NDArray[np.float64], before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_Inside", Guarantee]:
        """In the units of the data, about a centre that is found anew."""
        centre = np.array(notes["centre"])
        rows, clip = self._about(centre)
        covariance = self._gauss(self.settings.budget)
        covariance._spent = before.cost
        covariance.fit(ProjectedSource(rows, clip, basis))
        found = _Inside(
            matrix=covariance.covariance_,
            rest=0.0,
            centre=covariance.location_ + basis.T @ centre,
            centred=True,
            noise_scale=covariance.noise_scale_,
        )
        return found, _together(before, covariance.privacy_)

    def _about(self, centre: NDArray[np.float64]) -> tuple[RowSource, Clip]:
        """Rows in scaled units, and how they are read: about the centre of the first answer."""
        settings, scale = self.settings, self._scale
        box = None
        if self._ranges is not None:
            low, high = box_of(self._ranges, self._rows.n_columns)
            box = (low, high) if scale is None else (low / scale, high / scale)
        clip = Clip(
            row_norm=LARGEST_NORM,
            centre=centre,
            box=box,
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
        )
        return self._rows if scale is None else ScaledSource(self._rows, scale), clip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Inside:
    """What was released inside a basis."""

    matrix: NDArray[np.float64]
    rest: float  # beside the basis
    centre: NDArray[np.float64]
    centred: bool
    noise_scale: float


class _Basis(PrivatePCA):
    """With noise there are as many directions as columns, however few rows an owner has."""

    def _wanted(self, source: RowSource, n: int | None) -> int:
        return super()._wanted(source, None)


def _strengths(values: NDArray[np.float64], sent: int) -> NDArray[np.float64]:
    """Roots of what eigenvalues are above the first that is not sent, the strongest 1.

    Directions that all owners have but that are none of the leading ones would else count as much.
    """
    above = values[:sent] - (values[sent] if len(values) > sent else 0.0)
    strongest = float(above[0])
    if strongest <= 0:
        return np.ones(sent)
    return np.asarray(np.clip(np.sqrt(np.maximum(above, 0.0) / strongest), WEAKEST, 1.0))


@lru_cache(maxsize=64)
def _first_budget(whole: Budget, share: float) -> Budget:
    """The (epsilon, delta) of ``share`` of mu^2, at that share of delta."""
    assert whole.delta is not None  # the settings have both
    return _part(whole_strength(whole, pure=False), share, whole.delta)


def _part(mu: float, share: float, delta: float) -> Budget:
    """The (epsilon, delta) of ``share`` of mu^2, at that share of a delta."""
    (own,) = split(mu, (share,))
    return Budget(epsilon=epsilon_of(Gaussian(own), share * delta), delta=share * delta)


def _together(before: Guarantee, after: Guarantee) -> Guarantee:
    """The promise for what was released before and after."""
    exact = before.numerics is after.numerics is Numerics.EXACT
    receipts = [receipt for receipt in (before.ledger, _receipt(after.ledger)) if receipt]
    return replace(
        after,
        budget=before.budget,
        cost=compose(before.cost, after.cost),
        bounds=(*before.bounds, *(f"values: {words}" for words in after.bounds)),
        numerics=Numerics.EXACT if exact else Numerics.IDEALISED,
        ledger=" and ".join(receipts) or None,
    )


def _receipt(receipt: str | None) -> str | None:
    """Number and hash of an entry, without the name of the ledger's file."""
    if receipt is None:
        return None
    entry, number, _ = receipt.split(" ", 2)
    return f"{entry} {number} {receipt[receipt.rindex('(') :]}"


def _opened(rows: Any, settings: OwnerSettings) -> tuple[tuple[str, ...] | None, RowSource]:
    """Names of the columns where they have any, and the rows."""
    if is_frame(rows):
        found = names(rows)
        return found, ArraySource(as_table(rows), found)
    columns = None if settings.columns is None else list(settings.columns)
    source = open_rows(rows, columns, settings.unit)
    return source.feature_names, source


def _scale(settings: OwnerSettings, n_columns: int) -> NDArray[np.float64] | None:
    """One number for each column; `PrivatePCA` checks them before it reads anything."""
    if settings.scale is None:
        return None
    try:
        return np.array(np.broadcast_to(settings.scale, (n_columns,)), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("scale must be one positive number for each column") from None


def _plain(value: Any) -> Any:
    """The same without arrays and numbers of numpy."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
