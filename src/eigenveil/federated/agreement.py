"""What the owners of a federation have agreed on before anything is asked; all of it public."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any, Literal, get_args

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.messages import Declaration, check_name, largest_size, readable_size
from eigenveil.messages import Phrase
from eigenveil.privacy.budget import Budget
from eigenveil.text import plural

Weighting = Literal["predicted", "printed", "equal"]

_LARGEST_SCALE = 1e100  # of a scale
_SECONDS = ("join_seconds", "answer_seconds", "again_seconds")
_VARIANCES = Phrase(
    python="values='variances'", shell="values of variances", file='values = "variances"'
)
_HALF = 0.5  # the largest weight of an owner whose numbers nobody vouches for


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the others know of an owner; None: whatever it declares.

    Attributes
    ----------
    records : int, optional
        The most that are counted and stated; who declares more is said to.
    epsilon, delta : float, optional
        Who declares more does not take part.
    mechanism : str, optional
        Of its basis; who declares another does not take part.

    """

    records: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        if self.records is not None and not (type(self.records) is int and self.records >= 1):
            raise InvalidParameterError("records of an owner must be a whole number above 0")
        # Each alone is checked with an ordinary value of the other.
        Budget(
            epsilon=1.0 if self.epsilon is None else self.epsilon,
            delta=1e-6 if self.delta is None else self.delta,
        )
        if self.mechanism is not None:
            check_name("mechanism", self.mechanism)

    @property
    def complete(self) -> bool:
        """Whether nothing that its weight could grow with is left to the owner's word."""
        return None not in (self.records, self.epsilon, self.delta, self.mechanism)

    def allow(self, declared: Declaration) -> bool:
        """Return whether an owner spends what, and in the way that, the others know."""
        return (
            (self.epsilon is None or declared.epsilon <= self.epsilon)
            and (self.delta is None or declared.delta <= self.delta)
            and self.mechanism in (None, declared.mechanism)
        )

    def counted(self, declared: Declaration) -> int:
        """Return how many records the others count and state: no more than they have agreed on."""
        return declared.n_records if self.records is None else min(declared.n_records, self.records)

    def exceeded(self, declared: Declaration) -> bool:
        """Return whether an owner claims more records than are counted."""
        return self.counted(declared) < declared.n_records

    def doubts(self, declared: Declaration) -> str | None:
        """Return what of the stated numbers nobody vouches for, in words; None if the others know
        all.
        """
        if self.exceeded(declared):
            assert self.records is not None  # exceeded
            agreed = f"{self.records:,} {plural('record', self.records)}"
            words = [f"more than the agreed {agreed} are claimed and not counted"]
        else:
            words = []
        known = {"records": self.records, "epsilon": self.epsilon, "delta": self.delta}
        if alone := [name for name, limit in known.items() if limit is None]:
            words.append(f"by the owner's word alone: {', '.join(alone)}")
        return "; ".join(words) or None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What every agreement states.

    Attributes
    ----------
    federation : str
        Its name; an owner answers each question of a name once.
    owners : mapping
        Everybody who may take part, by name.
    n_columns, n_components : int
        Columns of every table, and directions to find.
    columns : tuple of str, optional
        Their names, in this order.
    scale : tuple of float, optional
        What every owner divides the columns by.
    kind : {"pca", "covariance"}
        What is released at the end: components, or a covariance.
    join_seconds, answer_seconds, again_seconds : float
        How long owners are waited for, and after what time a silent one is asked again.
    simulated : bool
        Whether noise may be seeded, which protects nobody.

    """

    federation: str
    owners: Mapping[str, Any]
    n_columns: int
    n_components: int
    columns: tuple[str, ...] | None = None
    scale: tuple[float, ...] | None = None
    kind: Literal["pca", "covariance"] = "pca"
    join_seconds: float = 600.0
    answer_seconds: float = 600.0
    again_seconds: float = 60.0
    simulated: bool = False

    def __post_init__(self) -> None:
        check_name("federation", self.federation)
        if not isinstance(self.owners, Mapping):
            raise InvalidParameterError("owners must be a mapping of names: give a dict")
        for name in self.owners:
            check_name("owner", name)
        for name in ("n_columns", "n_components"):
            if type(getattr(self, name)) is not int:
                raise InvalidParameterError(f"{name.removeprefix('n_')} must be a whole number")
        if not 1 <= self.n_components <= self.n_columns:
            raise InvalidParameterError("components must lie between 1 and the number of columns")
        if self.columns is not None and not (
            _is_list(self.columns, self.n_columns)
            and all(isinstance(name, str) for name in self.columns)
        ):
            raise InvalidParameterError("give one name for each column")
        if self.scale is not None and not (
            _is_list(self.scale, self.n_columns)
            and all(_between(s, _LARGEST_SCALE) for s in self.scale)
        ):
            raise InvalidParameterError("give one positive scale for each column")
        if self.kind not in ("pca", "covariance"):
            raise InvalidParameterError("kind must be 'pca' or 'covariance'")
        if not all(_between(getattr(self, name), math.inf) for name in _SECONDS):
            raise InvalidParameterError("seconds must be positive")

    def _document(self) -> dict[str, Any]:
        """Return what is agreed on; how long to wait may change afterwards."""
        names = (field.name for field in fields(self) if field.name not in _SECONDS)
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Agreement(Terms):
    """What will be asked, of whom, and when it counts; besides the `Terms`.

    Attributes
    ----------
    owners : mapping of str to Limits
        Everybody who may take part.
    share : float
        Of every owner's mu^2, for its basis. The second answer has k x k numbers where the first
        has d x k, so most of a budget belongs to the first.
    directions : int, optional
        How many each owner sends; as many as components by default. More of them help where many
        owners are small: what no owner sees clearly by itself is then not lost.
    values : {"shares", "variances"}
        What is asked for inside the aggregate basis: shares of variance, for which no owner needs
        a bound, or variances in the units of the data, for which each finds a length of its own
        rows privately. By default what ``kind`` needs: variances for a covariance.
    quorum : int
        How many owners must answer every round.
    weights : {"predicted", "printed", "equal"}
        From the error that each owner's mechanism should have, from the formula of [Fed], or none.
    most_weight : float, optional
        No owner has more of the whole. By default none has more than a half whose limits are not
        complete; the weight of the others follows from agreed numbers.

    """

    owners: Mapping[str, Limits]
    share: float = 0.8
    directions: int | None = None
    values: Literal["shares", "variances"] | None = None
    quorum: int = 2
    weights: Weighting = "predicted"
    most_weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_directions", "quorum"):
            if type(getattr(self, name)) is not int:
                raise InvalidParameterError(f"{name.removeprefix('n_')} must be a whole number")
        if not self.n_components <= self.n_directions <= self.n_columns:
            raise InvalidParameterError(
                "directions must lie between the numbers of components and of columns"
            )
        if largest_size(self.n_columns, self.n_directions) > readable_size(self.n_columns):
            raise InvalidParameterError(
                "so many directions of so many columns are a larger message than owners read: ask "
                "for fewer"
            )
        if not _between(self.share, 1) or self.share == 1:
            raise InvalidParameterError("share must lie between 0 and 1")
        if self.values not in (None, "shares", "variances"):
            raise InvalidParameterError("values must be 'shares' or 'variances'")
        if self.kind == "covariance" and self.values == "shares":
            raise InvalidParameterError("a covariance needs ", _VARIANCES)
        if not 1 <= self.quorum <= len(self.owners):
            raise InvalidParameterError("the quorum must lie between 1 and the number of owners")
        if self.weights not in get_args(Weighting):
            raise InvalidParameterError("weights must be 'predicted', 'printed' or 'equal'")
        if self.most_weight is not None and not _between(self.most_weight, 1):
            raise InvalidParameterError("most_weight must lie between 0 and 1")

    @property
    def n_directions(self) -> int:
        """How many each owner sends."""
        return self.n_components if self.directions is None else self.directions

    @property
    def unit(self) -> Literal["shares", "variances"]:
        """What is asked for inside the aggregate basis."""
        return self.values or ("variances" if self.kind == "covariance" else "shares")

    @property
    def vouched(self) -> frozenset[str]:
        """Owners whose weight needs no bound: it cannot grow with what they declare."""
        if self.most_weight is not None:
            return frozenset()
        return frozenset(owner for owner, limits in self.owners.items() if limits.complete)

    @property
    def largest_weight(self) -> float:
        """Weight cap for owners whose claims nobody vouches for."""
        if self.most_weight is not None:
            return self.most_weight
        return 1.0 if len(self.vouched) == len(self.owners) else _HALF

    def encode(self) -> bytes:
        """Return the same bytes for the same agreement."""
        owners = {name: asdict(limits) for name, limits in self.owners.items()}
        return json.dumps({**self._document(), "owners": owners}, sort_keys=True).encode()


def _between(value: Any, most: float) -> bool:
    number = not isinstance(value, bool) and isinstance(value, Real)
    return number and bool(0 < value <= most)  # a whole number may be larger than any float


def _is_list(values: object, length: int) -> bool:
    return isinstance(values, (list, tuple)) and len(values) == length
