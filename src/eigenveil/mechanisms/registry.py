"""Facts of every mechanism that users can name, collected, and checks of its options.

Each module under ``mechanisms/pca`` and ``mechanisms/covariance`` that users can name ends with an
`Entry`: its name, what it needs and promises, and how it is built for a strength. The fields of an
entry are its options, so that ``mechanism=Power(passes=6)`` is the entry ``"power"`` with another
number of passes. Every list of mechanisms elsewhere is derived from here: a new mechanism is a
module with its entry.
"""

import math
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.gate import Procedure
from eigenveil.messages import option
from eigenveil.numerics.spectral import max_krylov_columns
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Kind, Numerics

if TYPE_CHECKING:
    from eigenveil.planning.request import Request


_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
_WORDS = {int: "a positive integer", float: "a positive number", bool: "True or False"}


def check_options(mechanism: Any) -> None:
    """Refuse an option of a dataclass whose value is none of its type; numbers are positive."""
    kinds = get_type_hints(type(mechanism))
    for one in fields(mechanism):
        kind = kinds[one.name]
        if not _accepts(kind, getattr(mechanism, one.name)):
            raise InvalidParameterError(f"{one.name} must be {' or '.join(_words(kind))}")


def _accepts(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if parts := get_args(kind):  # a union
        return any(_accepts(part, value) for part in parts)
    if kind in _NUMBERS:
        number = isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
        return number and 0 < value < math.inf
    return isinstance(value, kind)


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return list(map(repr, get_args(kind)))
    if parts := get_args(kind):
        return [word for part in parts if part is not type(None) for word in _words(part)]
    return [_WORDS.get(kind) or f"a {kind.__name__}"]


Releases = Literal["components", "covariance"]
_WIDE = 4096  # columns

# Modules of a paper that declare no mechanism.
_OTHERS = ("client", "estimator", "figures", "model", "printed", "runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a mechanism may know when it is built. Public numbers.

    Attributes
    ----------
    budget : Budget
        That of the whole release.
    n_columns, n_components : int
        The latter of a release of components.
    n_rows : int or None
        Records that the mechanism sees, where their number is public.
    alone : bool
        Whether the budget buys nothing beside it.

    """

    budget: Budget
    n_columns: int
    n_components: int = 0
    n_rows: int | None = None
    alone: bool = False

    def delta(self, name: str, otherwise: str) -> float:
        """Return the budget's delta for a mechanism that cannot do without."""
        if self.budget.delta is None:
            raise UnsupportedNotionError(
                f"{name!r} may fail with a small probability: give epsilon and delta, or choose ",
                option("mechanism", otherwise),
            )
        return self.budget.delta


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A mechanism that users can name; its fields are its options.

    Attributes
    ----------
    name : str
        What users call it.
    releases : {"components", "covariance"}
        What it makes.
    about : str
        A few words for lists.
    source : str
        Where it comes from.
    auto : str
        When ``mechanism="auto"`` chooses it; empty for never.
    numerics : Numerics
        Whether the computer's rounding is covered, on tables that are not wide.
    pure_numerics : Numerics, optional
        The same for the version with a pure guarantee, where that differs.
    kind : Kind
        For which tables its promise holds.
    reads_once : bool
        Whether rows that can be read once only will do, about a known centre.
    unit_rows : bool
        Whether rows are scaled to unit length where no length is stated.
    uses_lengths : bool
        Whether a stated length of rows has any use.
    tightens : bool
        Whether a stated bound on rows only tightens one that is found privately; as it is
        otherwise, as in what was published.
    allows_for_missing : bool
        Whether its moments are corrected for empty cells, where a matrix is formed.
    batches : bool
        Whether rows are used in batches, each once: single rows, replace-one neighbours.
    forms_matrix : bool
        Whether it holds a matrix of columns by columns, unless its noise is lazy.
    standardises : bool
        Whether its components are those of the correlations of a released covariance.
    needs_delta : bool
        Whether it may fail with a small probability, so that rho will not do.
    pays_per_component : bool
        Whether its cost depends on the number of components.
    needs_gap : bool
        Whether it refuses tables whose leading directions are not well apart from the rest.
    may_coincide : bool
        Whether two honest releases may be equal, as where eigenvalues are held at zero.
    unpredicted : str
        Why the planner predicts no error; empty where it does.
    slow : bool
        Whether the planner simulates few releases.

    """

    name: ClassVar[str]
    releases: ClassVar[Releases]
    about: ClassVar[str]
    source: ClassVar[str]
    auto: ClassVar[str] = ""
    numerics: ClassVar[Numerics] = Numerics.EXACT
    pure_numerics: ClassVar[Numerics | None] = None
    kind: ClassVar[Kind] = Kind.WORST_CASE
    reads_once: ClassVar[bool] = True
    unit_rows: ClassVar[bool] = False
    uses_lengths: ClassVar[bool] = True
    tightens: ClassVar[bool] = False
    allows_for_missing: ClassVar[bool] = False
    batches: ClassVar[bool] = False
    forms_matrix: ClassVar[bool] = True
    needs_delta: ClassVar[bool] = False
    standardises: ClassVar[bool] = False
    pays_per_component: ClassVar[bool] = False
    needs_gap: ClassVar[bool] = False
    may_coincide: ClassVar[bool] = False
    unpredicted: ClassVar[str] = ""
    slow: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)

    def gaussian(self, mu: float, terms: Terms) -> Procedure[Any]:
        """Build the version for (epsilon, delta) and rho, at a strength mu."""
        raise UnsupportedNotionError(f"{self.name!r} has a pure version only")

    def pure(self, epsilon: float, terms: Terms) -> Procedure[Any]:
        """Build the version with a pure guarantee, at a strength epsilon."""
        raise UnsupportedNotionError(
            f"{self.name!r} adds Gaussian noise and cannot give a pure epsilon guarantee"
        )

    def check(self, request: "Request") -> None:
        """Refuse a request that this mechanism cannot serve, from public numbers."""

    @property
    def has_gaussian(self) -> bool:
        """Whether there is a version for (epsilon, delta) and rho."""
        return type(self).gaussian is not Entry.gaussian

    @property
    def has_pure(self) -> bool:
        """Whether there is a version with a pure guarantee."""
        return type(self).pure is not Entry.pure

    @property
    def assumption(self) -> str | None:
        """The law of tables that a model-based promise is about, in words."""
        return None

    @property
    def module(self) -> str:
        """The module that declares it."""
        return type(self).__module__

    @property
    def proof(self) -> str:
        """The page in ``docs/proofs`` that proves it."""
        return self.module.rpartition(".")[2]

    @property
    def notions(self) -> tuple[str, ...]:
        """Return the kinds of budget that it serves by itself."""
        first = ("(epsilon, delta)",) if self.needs_delta else ("(epsilon, delta)", "rho")
        pure = ("pure epsilon",) if self.has_pure else ()
        return (*first, *pure) if self.has_gaussian else pure


@dataclass(frozen=True, kw_only=True)
class ComponentEntry(Entry):
    """A mechanism for principal components.

    Attributes
    ----------
    streams : bool
        Whether records may arrive over days.
    typical_length : float or None
        Mean squared length of rows over their squared bound, as owners of a federation are weighed;
        None where it is not for them.

    """

    releases: ClassVar[Releases] = "components"
    streams: ClassVar[bool] = False
    typical_length: ClassVar[float | None] = None

    def is_lazy(self, n_columns: int, n_components: int) -> bool:
        """Return whether noise is drawn for products instead of a d x d matrix."""
        return False

    @property
    def n_components(self) -> int | None:
        """How many components it has by itself; None where the caller decides."""
        return None


@dataclass(frozen=True, kw_only=True)
class LazyEntry(ComponentEntry):
    """A mechanism whose noise can be drawn for the products that are needed.

    Attributes
    ----------
    lazy : bool, optional
        Whether it is, instead of a d x d matrix; by default for few components of more than 4096
        columns. The promise then covers real numbers only (idealised numerics).

    """

    lazy: bool | None = None

    def is_lazy(self, n_columns: int, n_components: int) -> bool:
        """Return whether noise is drawn for products instead of a d x d matrix."""
        return wide(n_columns, n_components) if self.lazy is None else bool(self.lazy)

    def lazily(self, terms: Terms) -> bool:
        """Return the same for the terms of a build."""
        return self.is_lazy(terms.n_columns, terms.n_components)


def wide(n_columns: int, n_components: int) -> bool:
    """Return whether lazy noise suits a table better than a d x d matrix.

    A matrix has exact noise and is affordable up to 4096 columns; its time and memory grow with
    d^2 and more. Lazy noise takes a fraction of both there, and allows far wider tables.
    """
    return n_columns > _WIDE and max_krylov_columns(n_components) <= n_columns // 8


@dataclass(frozen=True, kw_only=True)
class CovarianceEntry(Entry):
    """A mechanism for a covariance matrix.

    Attributes
    ----------
    semidefinite : bool
        Whether the released matrix is positive semi-definite.
    gaussian_noise : bool
        Whether noise of the stated size is added to every entry of a second moment, but for pure
        budgets.
    lifts : bool
        Whether its pure version releases the mean with the matrix.
    trace_bound : float, optional
        Public bound on the total variance, if a smaller one than the squared bound on rows is
        known; of scaled columns, where they are scaled. It is enforced after the noise.

    """

    releases: ClassVar[Releases] = "covariance"
    allows_for_missing: ClassVar[bool] = True
    semidefinite: ClassVar[bool] = False
    gaussian_noise: ClassVar[bool] = False
    lifts: ClassVar[bool] = False
    trace_bound: float | None = None

    def lifted(self, epsilon: float) -> Any:
        """Build the pure version for rows with a constant coordinate, where ``lifts`` says so."""
        raise UnsupportedNotionError(f"{self.name!r} releases no mean by itself")


def entries(releases: Releases | None = None) -> tuple[Entry, ...]:
    """Return all mechanisms that users can name; those that ``"auto"`` chooses come first."""
    kinds: tuple[Releases, ...] = ("components", "covariance") if releases is None else (releases,)
    return tuple(found for kind in kinds for found in _collected() if found.releases == kind)


def entry(releases: Releases, mechanism: Any) -> Entry:
    """Return the entry of a name, or a configured one as it is."""
    if isinstance(mechanism, Entry) and mechanism.releases == releases:
        return mechanism
    found = {one.name: one for one in entries(releases)}
    try:
        return found[mechanism]
    except (KeyError, TypeError):
        raise unknown_mechanism(mechanism, ("auto", *found)) from None


def unknown_mechanism(mechanism: Any, known: Sequence[str]) -> InvalidParameterError:
    """Return the error for a name that is none of a mechanism, with the nearest that is."""
    near = get_close_matches(mechanism, known, n=1) if isinstance(mechanism, str) else []
    guess = f"; did you mean {near[0]!r}?" if near else ""
    names = ", ".join(map(repr, known))
    return InvalidParameterError(f"mechanism must be one of: {names}{guess}")


@lru_cache(maxsize=1)
def _collected() -> tuple[Entry, ...]:
    return tuple(sorted(_declared(), key=lambda one: (not one.auto, one.name)))


def _declared() -> Iterator[Entry]:
    """Yield the entries of all modules here and in the folders of papers."""
    for name in _modules():
        module = import_module(name)
        for found in vars(module).values():
            if isinstance(found, Entry) and type(found).__module__ == name:
                yield found


def _modules() -> Iterator[str]:
    """Yield the names of modules that may declare mechanisms."""
    here, papers = __package__, __package__.replace("mechanisms", "papers")
    folders = [f"{papers}.{one.name}" for one in _listed(papers) if one.ispkg]
    for folder in (here, *folders):
        yield from (f"{folder}.{one.name}" for one in _listed(folder) if one.name not in _OTHERS)


def _listed(package: str) -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.iter_modules(import_module(package).__path__)
