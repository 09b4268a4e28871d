"""What a figure is: settings, methods and claims, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from eigenveil.papers.claims import Claim
    from eigenveil.papers.runner import Stored


Scale = Literal["small", "paper"]

PAPERS = ("spiked", "covrev", "kpca", "fed")  # folders beside this module, with figures

SCALES: tuple[Scale, ...] = ("small", "paper")
Settings = Mapping[str, Any]
Role = Literal["printed", "published", "ours", "not private", "reference"]
Work = Callable[[Settings, int, "Stored"], Mapping[str, float]]


@dataclass(frozen=True)
class Method:
    """One line of a figure.

    Attributes
    ----------
    name : str
        What the paper, or this library, calls it.
    role : Role
        "printed": the paper's own algorithm as it is printed. "published": a rival with a promise.
        "ours": this library's. "not private": reads records without noise, or has a constant
        without proof. "reference": knows nothing, or everything.
    detail : str
        How it was run, for readers of the table of results.

    """

    name: str
    role: Role
    detail: str = ""

    @property
    def label(self) -> str:
        """Name for legends and columns; what is not private says so."""
        return f"{self.name} (not private)" if self.role == "not private" else self.name


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a setting that varies, and those that do not.

    ``values`` and ``settings`` are the paper's; ``small`` has what is smaller at that scale.
    """

    name: str
    along: str
    values: tuple[Any, ...]
    settings: Settings = field(default_factory=dict)
    small_values: tuple[Any, ...] | None = None
    small: Settings = field(default_factory=dict)
    log_x: bool = False

    def cells(self, scale: Scale) -> list[Settings]:
        """Return the settings of every point along the axis."""
        fixed = dict(self.settings)
        values = self.values
        if scale == "small":
            fixed |= self.small
            values = values if self.small_values is None else self.small_values
        return [fixed | {self.along: value} for value in values]


@dataclass(frozen=True)
class Compared:
    """Ours against the best of the published methods with the same guarantee."""

    ours: str
    published: tuple[str, ...]
    guarantee: str


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    Attributes
    ----------
    name : str
        As the command line takes it: ``"spiked:fig1"``.
    source : str
        Paper, figure and section.
    measure : str
        What the vertical axis shows.
    methods : tuple of Method
        In the order of the legend.
    panels : tuple of Panel
        From left to right.
    work : Work
        Errors of all methods in one run: settings, a seed, and where data lie.
    claims : tuple of Claim
        What the paper says of the figure.
    compared : tuple of Compared
        For the ratio of ours over published.
    repeats : mapping
        By scale; that of "paper" is the paper's.
    data : tuple of str
        Data sets that it needs.
    more_is_better : bool
        Whether the measure is a share of variance and not an error.
    notes : tuple of str
        What differs from the paper, and why.

    """

    name: str
    source: str
    measure: str
    methods: tuple[Method, ...]
    panels: tuple[Panel, ...]
    work: Work
    claims: "tuple[Claim, ...]"
    repeats: Mapping[Scale, int]
    compared: tuple[Compared, ...] = ()
    data: tuple[str, ...] = ()
    more_is_better: bool = False
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the name of its files, without an ending."""
        return self.name.replace(":", "-")

    def method(self, name: str) -> Method:
        """Return the method of a name."""
        return next(one for one in self.methods if one.name == name)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of all settings, in order of appearance."""
        found = [key for panel in self.panels for key in panel.cells("paper")[0]]
        return tuple(dict.fromkeys(found))


@cache
def figures() -> dict[str, Figure]:
    """Return all figures by name."""
    modules = [import_module(f"{__package__}.{paper}.figures") for paper in PAPERS]
    return {one.name: one for module in modules for one in module.FIGURES}
