"""What a stream was begun with, and whether an estimator goes on with the same."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.estimators.fitting import noise_and_ledger
from eigenveil.estimators.stream_persons import StreamPersons
from eigenveil.estimators.stream_state import Stream
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    StateError,
)
from eigenveil.mechanisms.registry import ComponentEntry
from eigenveil.privacy.guarantee import MOST_ARRIVALS
from eigenveil.rows.base import RowSource
from eigenveil.text import printable
from eigenveil.wording import COLUMNS, ENCODE, Phrase

__all__ = ["continued", "require_like"]

_ARRIVALS = Phrase(
    python="max_arrivals", shell="--max-arrivals", file="the most arrivals of a person"
)
_FIVE_ARRIVALS = Phrase(
    python="max_arrivals=5", shell="--max-arrivals 5", file="the most arrivals of a person"
)
_WHOSE = Phrase(
    python="say whose rows they are, groups=ids",
    shell="say whose rows they are, --unit COLUMN",
    file="say whose rows they are",
)

_FIXED = (
    "n_components",
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "row_norm",
    "centring",
    "batch_size",
    "max_arrivals",
    "scale",
    "on_invalid",
    "on_missing",
    "random_state",
)


def continued(estimator: Any, stream: Stream | None, path: Path | None = None) -> Stream:
    """Return the stream of an estimator's parameters, new if there is none."""
    _, ledger = noise_and_ledger(estimator)
    payer = None if ledger is None else ledger.id
    given = {name: _plain(getattr(estimator, name)) for name in _FIXED}
    if stream is None:
        if hasattr(estimator, "n_samples_"):  # another stream would spend the budget again
            raise StateError(
                "this copy does not hold the stream: go on with the original or with the state, "
                "or begin a new stream with a new estimator"
            )
        persons = None if estimator.max_arrivals is None else StreamPersons()
        return Stream(settings=given, ledger=payer, persons=persons, path=path, account=ledger)
    for each, value in given.items():
        if stream.settings.get(each) != value:
            raise StateError(
                f"the stream began with another {each}: go on with that one, or start another "
                "stream"
            )
    if stream.ledger != payer:
        raise LedgerError(
            "the stream is paid from another ledger, or from none: pass the one it began with"
        )
    stream.account = ledger
    if path is not None and ledger is not None:
        ledger.require_unspent(stream.name, stream.spent)
    return stream


def require_like(source: RowSource, settings: dict[str, Any]) -> None:
    """Note the unit of a stream that begins, and how its cells are read; refuse others later.

    Persons come a stated number of times, and nobody else does.
    """
    if source.undecided:
        raise InvalidParameterError(
            "a stream finds no levels of categories: state them, ", ENCODE, " with a list"
        )
    unit, max_arrivals = source.protects, settings["max_arrivals"]
    if unit.owns_many and max_arrivals is None:
        raise InvalidParameterError(
            "a stream protects persons who come a stated number of times: give the most arrivals "
            "of which rows of one person are used, ",
            _FIVE_ARRIVALS,
        )
    if max_arrivals is not None:
        if type(max_arrivals) is not int or not 1 <= max_arrivals <= MOST_ARRIVALS:
            raise InvalidParameterError(
                _ARRIVALS, f" must be a positive integer, {MOST_ARRIVALS} at most"
            )
        if not unit.owns_many:
            raise InvalidParameterError(_ARRIVALS, " is a number for persons: ", _WHOSE)
    if settings.setdefault("unit", asdict(unit)) != asdict(unit):
        raise StateError(
            "the stream began with ids of another column, or given otherwise: give those"
        )
    names, found = settings.get("feature_names"), source.feature_names
    known = names is not None and found is not None
    if source.n_columns != settings.get("n_features", source.n_columns) or (
        known and list(found or ()) != names
    ):
        raise InvalidDataError(
            "these rows have other columns than the stream began with, or in another order: choose "
            "the same, ",
            COLUMNS,
        )
    read = {"encoding": source.encoding, "remarks": list(source.remarks)}
    if _readings(settings.setdefault("read", read)) != _readings(read):
        raise StateError(
            "the stream began with cells that became numbers in another way: read them as then"
        )


def _readings(read: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return how columns are encoded, and the remarks about others.

    The words about an encoded column follow from its encoding, and differ between versions.
    """
    encoded = tuple(f"{printable(column)!r} " for column in read["encoding"])
    return read["encoding"], [each for each in read["remarks"] if not each.startswith(encoded)]


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, ComponentEntry):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(number) for name, number in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()  # one number, of an array without dimensions
    if isinstance(value, (list, tuple)):
        return [_plain(number) for number in value]
    return value.item() if isinstance(value, np.generic) else value
