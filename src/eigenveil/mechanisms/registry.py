"""Facts of every mechanism that users can name, collected, and checks of its options.

Each module here or in the folder of a paper that declares one has a class for it: its name, what it
needs and promises, and how it runs. Its options are fields, so that ``mechanism=Power(passes=6)``
is ``"power"`` with another number of passes. What runs is a copy that `Mechanism.at` returns for a
strength. Every list of mechanisms elsewhere is derived from here: a new mechanism is one class.
"""

import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.gate import Gate
from eigenveil.messages import option
from eigenveil.numerics.spectral import max_krylov_columns
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.privacy.guarantee import Kind, Numerics
from eigenveil.rows.base import RowSource

if TYPE_CHECKING:
    from eigenveil.planning.request import Request


_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
_WORDS = {int: "a positive integer", float: "a positive number", bool: "True or False"}


NOT_AN_OPTION = {"option": False}  # metadata of fields that a copy for a strength gets


def options(mechanism: "Mechanism") -> dict[str, Any]:
    """Return the options of a mechanism by name."""
    names = (one.name for one in fields(mechanism) if one.metadata.get("option", True))
    return {name: getattr(mechanism, name) for name in names}


def check_options(mechanism: "Mechanism") -> None:
    """Refuse an option whose value is none of its type; numbers are positive."""
    kinds = _kinds(type(mechanism))
    for name, value in options(mechanism).items():
        if not _accepts(kinds[name], value):
            raise InvalidParameterError(f"{name} must be {' or '.join(_words(kinds[name]))}")


@cache
def _kinds(mechanism: Hashable) -> dict[str, Any]:
    return get_type_hints(mechanism)


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
class BuildContext:
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
class Mechanism(ABC):
    """A mechanism that users can name; its fields are its options, and public.

    Attributes
    ----------
    name : str
        What users call it.
    releases : {"components", "covariance"}
        What it makes.
    has_gaussian, has_pure : bool
        Whether there is a version for (epsilon, delta) and rho, and one with a pure guarantee.
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
    assumption : str or None
        The law of tables that a model-based promise is about, in words.
    proof : str
        The page in ``docs/proofs`` that proves it; that of the module unless it says otherwise.
    unpredicted : str
        Why the planner predicts no error; empty where it does.
    slow : bool
        Whether the planner simulates few releases.
    strength : Gaussian or Pure, optional
        What it may spend, in the copy that `at` returns.

    """

    name: ClassVar[str]
    releases: ClassVar[Releases]
    has_gaussian: ClassVar[bool] = True
    has_pure: ClassVar[bool] = False
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
    assumption: ClassVar[str | None] = None
    proof: ClassVar[str]
    unpredicted: ClassVar[str] = ""
    slow: ClassVar[bool] = False
    strength: Allotment | None = field(default=None, repr=False, metadata=NOT_AN_OPTION)

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        cls.proof = vars(cls).get("proof", cls.__module__.rpartition(".")[2])

    def __post_init__(self) -> None:
        if self.strength is None:
            check_options(self)

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return a copy that runs at a strength; fields named as in the context have its values."""
        if isinstance(strength, Pure) and not self.has_pure:
            raise UnsupportedNotionError(
                f"{self.name!r} adds Gaussian noise and cannot give a pure epsilon guarantee"
            )
        if isinstance(strength, Gaussian) and not self.has_gaussian:
            raise UnsupportedNotionError(f"{self.name!r} has a pure version only")
        asked = {one.name for one in fields(self)} & {one.name for one in fields(context)}
        return replace(self, strength=strength, **{name: getattr(context, name) for name in asked})

    @abstractmethod
    def run(self, source: RowSource, clip: Clip, gate: Gate) -> Any:
        """Read the rows, bounded by ``clip``, and release through ``gate``."""

    def cost(self) -> Cost:
        """Return what a run costs: the strength, unless it is composed of steps."""
        assert self.strength is not None  # a plan asks for the copy of `at`
        return self.strength

    @property
    def mu(self) -> float:
        """The strength of the version for (epsilon, delta) and rho."""
        assert isinstance(self.strength, Gaussian)
        return self.strength.mu

    @property
    def epsilon(self) -> float:
        """The strength of the version with a pure guarantee."""
        assert isinstance(self.strength, Pure)
        return self.strength.epsilon

    def check(self, request: "Request") -> None:  # noqa: B027 - most serve every request
        """Refuse a request that this mechanism cannot serve, from public numbers."""

    @property
    def module(self) -> str:
        """The module that declares it."""
        return type(self).__module__

    @property
    def notions(self) -> tuple[str, ...]:
        """Return the kinds of budget that it serves by itself."""
        first = ("(epsilon, delta)",) if self.needs_delta else ("(epsilon, delta)", "rho")
        pure = ("pure epsilon",) if self.has_pure else ()
        return (*first, *pure) if self.has_gaussian else pure


@dataclass(frozen=True, kw_only=True)
class ComponentMechanism(Mechanism):
    """A mechanism for principal components.

    Attributes
    ----------
    streams : bool
        Whether records may arrive over days.
    typical_length : float or None
        Mean squared length of rows over their squared bound, as owners of a federation are weighed;
        None where it is not for them.
    n_components : int
        How many are released, in the copy that `at` returns.

    """

    releases: ClassVar[Releases] = "components"
    streams: ClassVar[bool] = False
    typical_length: ClassVar[float | None] = None
    n_components: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)

    def is_lazy(self, n_columns: int, n_components: int) -> bool:
        """Return whether noise is drawn for products instead of a d x d matrix."""
        return False

    @property
    def own_components(self) -> int | None:
        """How many components it has by itself; None where the caller decides."""
        return None


@dataclass(frozen=True, kw_only=True)
class LazyMechanism(ComponentMechanism):
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

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return a copy that runs at a strength and knows whether it is lazy."""
        lazy = self.is_lazy(context.n_columns, context.n_components)
        return replace(super().at(strength, context), lazy=lazy)


def wide(n_columns: int, n_components: int) -> bool:
    """Return whether lazy noise suits a table better than a d x d matrix.

    A matrix has exact noise and is affordable up to 4096 columns; its time and memory grow with
    d^2 and more. Lazy noise takes a fraction of both there, and allows far wider tables.
    """
    return n_columns > _WIDE and max_krylov_columns(n_components) <= n_columns // 8


@dataclass(frozen=True, kw_only=True)
class CovarianceMechanism(Mechanism):
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


def entries(releases: Releases | None = None) -> tuple[Mechanism, ...]:
    """Return all mechanisms that users can name; those that ``"auto"`` chooses come first."""
    kinds: tuple[Releases, ...] = ("components", "covariance") if releases is None else (releases,)
    return tuple(found for kind in kinds for found in _collected() if found.releases == kind)


def entry(releases: Releases, mechanism: Any) -> Mechanism:
    """Return the entry of a name, or a configured one as it is."""
    if isinstance(mechanism, Mechanism) and mechanism.releases == releases:
        if mechanism.strength is not None:
            raise InvalidParameterError("mechanism must have no strength: the budget decides")
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
def _collected() -> tuple[Mechanism, ...]:
    return tuple(sorted(_declared(), key=lambda one: (not one.auto, one.name)))


def _declared() -> Iterator[Mechanism]:
    """Yield the mechanisms of all modules here and in the folders of papers."""
    for name in _modules():
        for found in vars(import_module(name)).values():
            named = (
                isinstance(found, type) and issubclass(found, Mechanism) and "name" in vars(found)
            )
            if named and found.__module__ == name:
                yield found()


def _modules() -> Iterator[str]:
    """Yield the names of modules that may declare mechanisms."""
    here, papers = __package__, __package__.replace("mechanisms", "papers")
    folders = [f"{papers}.{one.name}" for one in _listed(papers) if one.ispkg]
    for folder in (here, *folders):
        yield from (f"{folder}.{one.name}" for one in _listed(folder) if one.name not in _OTHERS)


def _listed(package: str) -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.iter_modules(import_module(package).__path__)
