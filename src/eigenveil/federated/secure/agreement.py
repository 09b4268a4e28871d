"""What the owners of secure sums have agreed on; its digest is in every message and every key.

Everything rests on the roster, the owners' public keys: whoever makes a copy with other keys can
read what its holder sends. So the fingerprint is compared over another channel than the file came.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import NO_EXPONENT
from eigenveil.exceptions import EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.federated.agreement import Terms
from eigenveil.federated.secure.masks import LABEL, Statement
from eigenveil.planning.bounds import reach_of
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.collusion import Honest
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.shared_noise import SharedNoise

StepKind = Literal["distances", "mean", "directions", "moment", "pairs"]

_FEWEST_OWNERS = 3
_MOST_OWNERS = 1000
_MOST_COLUMNS = 20_000  # of a matrix, so that a pad stays below 2^32 bytes
_MOST_RECORDS = 1 << 27  # of an owner
_LARGEST_SUM = 1 << 62  # of all owners, in steps of the grid: masks are words of 64 bits
_KEY = re.compile(r"[0-9a-f]{64}")
_SENSITIVITY: dict[StepKind, float] = {
    "distances": math.sqrt(2),  # two counts
    "mean": 2.0,
    "directions": math.sqrt(2),
    "moment": math.sqrt(2),
    "pairs": math.sqrt(2),
}
# Shares of mu^2. Components: distances, mean, both again, directions of unit rows.
_LOCATED: tuple[tuple[StepKind, float], ...] = (
    ("distances", 0.02),
    ("mean", 0.05),
    ("distances", 0.02),
    ("mean", 0.10),
    ("directions", 0.81),
)
# A covariance: a centre, distances about it, then what `elliptical` reads. Bounds only tighten.
_COVARIANCE: tuple[tuple[StepKind, float], ...] = (
    ("distances", 0.02),
    ("mean", 0.04),
    ("distances", 0.02),
    ("mean", 0.10),
    ("distances", 0.02),
    ("directions", 0.60),
    ("moment", 0.20),
)
_WITHIN: tuple[tuple[StepKind, float], ...] = (("pairs", 1.0),)


class Member(NamedTuple):
    """An owner on the roster: its Ed25519 key in hexadecimal digits, and how many records it has.

    The number of records, or of persons where these are protected, is public.
    """

    key: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sum: what is summed, and the noise in shares."""

    number: int
    kind: StepKind
    share: float
    noise: SharedNoise

    @property
    def name(self) -> str:
        """A name for people and files."""
        return f"{self.number}-{self.kind}"

    @property
    def size(self) -> int:
        """Whole numbers in one upload."""
        d = self.noise.columns
        return d * (d + 1) // 2 if self.noise.symmetric else d

    @property
    def cost(self) -> Cost:
        """What the step costs if as many owners are honest as agreed."""
        return Gaussian(self.noise.mu())

    @property
    def alone(self) -> Cost:
        """What the step costs an owner if no other is honest."""
        return Gaussian(self.noise.mu(1))


@dataclass(frozen=True, kw_only=True)
class SecureAgreement(Terms):
    """What will be summed, by whom, and what that promises; besides the `Terms`.

    Attributes
    ----------
    owners : mapping of str to Member
        The roster: at least three.
    epsilon, delta : float
        What each record of an owner is promised if ``honest`` owners are.
    honest : int
        t, how many owners the promise counts on, the record's own among them.
    quorum : int
        How many owners must be in every sum. Up to ``quorum - honest`` may collude.
    variance : {"total", "within"}
        About one common centre, or of pairs of rows inside each owner.
    bounds : pair of tuples of float, optional
        Lowest and highest value of every column; entries outside are clamped.
    unit : str, optional
        The column that says whose a row is: all rows of one person are protected together.

    """

    owners: Mapping[str, Member]
    epsilon: float
    delta: float
    honest: int
    quorum: int
    variance: Literal["total", "within"] = "total"
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_roster()
        object.__setattr__(self, "owners", dict(sorted(self.owners.items())))
        if self.n_columns > _MOST_COLUMNS:
            raise InvalidParameterError(f"columns must be a number from 1 to {_MOST_COLUMNS:,}")
        if self.budget.is_pure:
            raise InvalidParameterError("secure sums promise epsilon and delta: give both")
        if self.variance not in ("total", "within"):
            raise InvalidParameterError("variance must be 'total' or 'within'")
        if self.kind == "covariance" and self.variance == "within":
            raise InvalidParameterError(
                "a covariance by secure sums is about one centre: leave out variance = 'within'"
            )
        self._check_bounds()
        self._check_room(self.steps)  # a budget too small for its sums is refused now

    def _check_room(self, steps: tuple[Step, ...]) -> None:
        """Refuse sums that masks could not carry: a record adds 1 at most to an entry."""
        records = sum(member.records for member in self.owners.values())
        finest = min(step.noise.grid for step in steps)
        if records << max(0, -finest) > _LARGEST_SUM:
            raise InvalidParameterError(
                "sums of so many records, to the digits that so large a budget leaves, exceed 64 "
                "bits: form several groups of owners, or lower epsilon"
            )

    def _check_roster(self) -> None:
        if len(self.owners) < _FEWEST_OWNERS:
            raise InvalidParameterError(
                "secure sums need three owners at least: with two, each knows the other's sum; "
                "there let each add its own noise, without secure sums"
            )
        if len(self.owners) > _MOST_OWNERS:
            raise InvalidParameterError(f"at most {_MOST_OWNERS:,} owners: form several groups")
        for name, member in self.owners.items():
            if not (isinstance(member.key, str) and _KEY.fullmatch(member.key)):
                raise InvalidParameterError(f"the key of {name} must have 64 hexadecimal digits")
            if type(member.records) is not int or not 1 <= member.records <= _MOST_RECORDS:
                raise InvalidParameterError(
                    f"records of {name} must be a number from 1 to {_MOST_RECORDS:,}"
                )
        if len({member.key for member in self.owners.values()}) < len(self.owners):
            raise InvalidParameterError("two owners have one key: each makes its own")
        counts = (self.honest, self.quorum)
        if not all(type(count) is int for count in counts) or not (
            2 <= self.honest <= self.quorum <= len(self.owners)
        ):
            raise InvalidParameterError(
                "honest must be a number from 2 to the quorum, and that at most the number of "
                "owners"
            )
        if self.quorum + self.honest <= len(self.owners) + 1:
            raise InvalidParameterError(
                "quorum and honest together must exceed the number of owners by more than 1: raise "
                "one of them, so that no step is opened twice"
            )

    def _check_bounds(self) -> None:
        d = self.n_columns
        if self.bounds is not None:
            low, high = self.bounds
            ends = all(len(end) == d and all(map(math.isfinite, end)) for end in (low, high))
            if not ends or not all(a < b for a, b in zip(low, high, strict=True)):
                raise InvalidParameterError("give each column a low bound below its high one")

    @property
    def budget(self) -> Budget:
        """What each record is promised."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The sums in their order."""
        if self.kind == "covariance":
            shares = _COVARIANCE
        else:
            shares = _LOCATED if self.variance == "total" else _WITHIN
        mus = split(whole_strength(self.budget, pure=False), [share for _, share in shares])
        return tuple(
            Step(number=i, kind=kind, share=share, noise=self._noise(kind, mu))
            for i, ((kind, share), mu) in enumerate(zip(shares, mus, strict=True))
        )

    def _noise(self, kind: StepKind, mu: float) -> SharedNoise:
        return SharedNoise.calibrated(
            mu,
            sensitivity=_SENSITIVITY[kind],
            columns=NO_EXPONENT + 1 if kind == "distances" else self.n_columns,
            symmetric=kind in ("directions", "moment", "pairs"),
            honest=self.honest,
        )

    @property
    def cost(self) -> Cost:
        """All steps together, if as many owners are honest as agreed."""
        return compose(*(step.cost for step in self.steps))

    @property
    def alone(self) -> Cost:
        """All steps together, if no other owner is honest."""
        return compose(*(step.alone for step in self.steps))

    @cached_property
    def promise(self) -> Honest:
        """What holds with how many honest owners."""
        costs = [
            compose(*(Gaussian(step.noise.mu(h)) for step in self.steps))
            for h in range(1, self.honest + 1)
        ]
        mus = tuple(cost.mu for cost in costs if isinstance(cost, Gaussian))
        return Honest(
            mus=mus,
            quorum=self.quorum,
            owners=len(self.owners),
            total=self.variance == "total",
        )

    @property
    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The bounds in scaled units."""
        if self.bounds is None:
            return None
        scale = np.ones(self.n_columns) if self.scale is None else np.array(self.scale)
        return np.array(self.bounds[0]) / scale, np.array(self.bounds[1]) / scale

    @property
    def start(self) -> NDArray[np.float64]:
        """The public point that the centre is looked for from, in scaled units."""
        if self.box is None:
            return np.zeros(self.n_columns)
        return np.asarray((self.box[0] + self.box[1]) / 2)

    @property
    def radius(self) -> float:
        """How far bounds reach from the start; 1 where there are none."""
        return 1.0 if self.box is None else reach_of(self.box, None, centred=False)

    def encode(self) -> bytes:
        """Return the same bytes for the same agreement."""
        document = self._document()
        document["owners"] = {name: one._asdict() for name, one in self.owners.items()}
        document["label"] = LABEL
        document["steps"] = [
            {"kind": step.kind, "share": step.share, **asdict(step.noise)} for step in self.steps
        ]
        return json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Invert `encode`; steps and noise must be what this version makes of the rest."""
        try:
            document = json.loads(data)
            if document.pop("label") != LABEL:
                raise ValueError
            del document["steps"]
            document["owners"] = {name: Member(**m) for name, m in document["owners"].items()}
            for name in ("columns", "scale"):
                document[name] = None if document[name] is None else tuple(document[name])
            if document["bounds"] is not None:
                low, high = document["bounds"]
                document["bounds"] = (tuple(low), tuple(high))
            found = cls(**document)
            if found.encode() == data:
                return found
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, EigenveilError):
            pass
        raise InvalidDataError(
            "not an agreement on secure sums, altered, or of another version: ask for the file "
            "that eigenveil federate agreement wrote"
        )

    @cached_property
    def digest(self) -> bytes:
        """Return the hash that stands for the agreement."""
        return hashlib.sha256(self.encode()).digest()

    @property
    def fingerprint(self) -> str:
        """Return the digest in hexadecimal digits, in groups, to be compared by voice."""
        text = self.digest.hex()
        return " ".join(text[i : i + 4] for i in range(0, len(text), 4))

    def agreed(self, owner: str) -> Statement:
        """Return what an owner signs who agrees."""
        return Statement(
            purpose="agreed",
            agreement=self.digest,
            step=-1,
            question=b"",
            roll=b"",
            sender=owner,
            body=self.encode(),
        )

    def key(self, owner: str) -> bytes:
        """Return the public key of an owner on the roster."""
        return bytes.fromhex(self.owners[owner].key)
