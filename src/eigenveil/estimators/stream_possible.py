"""What the state of a stream may hold; anything else is not the state of a stream."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenveil.data.clip import NO_EXPONENT
from eigenveil.mechanisms.pca.one_pass import OnePassState
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.scalars.distances import NoisyDistances
from eigenveil.privacy.adjacency import Unit

if TYPE_CHECKING:
    from eigenveil.estimators.stream_persons import StreamPersons
    from eigenveil.estimators.stream_state import Stream

__all__ = ["require_possible"]

_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "settings": (dict,),
    "ledger": (str, type(None)),
    "entry": (str, type(None)),
    "spent": (int,),
    "used": (int,),
    "exact": (bool,),
    "finished": (bool,),
    "arrival": (bool,),
}


def require_possible(stream: "Stream") -> None:
    """Raise `ValueError` for what no stream can have noted; all that follows relies on it."""
    for name, kinds in _KINDS.items():
        if type(getattr(stream, name)) not in kinds:
            raise ValueError
    settings, iterate = stream.settings, stream.iterate
    d, names = settings.get("n_features"), settings.get("feature_names")
    possible = (
        0 <= stream.used <= stream.spent
        and _are_words(stream.labels)
        and ("feature_names" in settings) == (d is not None)
        and ("unit" in settings) == (d is not None)
        and (d is None or _is_unit(settings["unit"]))
        and ("read" in settings) == (d is not None)
        and (d is None or _is_reading(settings["read"]))
        and (d is None or (type(d) is int and d >= 1))
        and (names is None or (_are_words(names) and len(names) == d))
        and (stream.bounds is None or (d is not None and _are_bounds(stream.bounds, d)))
        and (iterate is None or _is_possible(iterate, settings))
        and all(_is_table(rows, (len(rows), d), finite=False) for rows in stream.waiting)
        and _are_possible(stream.persons, stream)
    )
    if not possible:
        raise ValueError


def _are_possible(persons: "StreamPersons | None", stream: "Stream") -> bool:
    """Return whether the persons have as many records as came, and nobody too many."""
    most = stream.settings.get("max_arrivals")
    if persons is None or most is None:
        return persons is None and most is None
    return (
        type(most) is int
        and stream.settings.get("ids") in (None, "text", "numbers")  # as earlier versions note
        and sum(persons.counts.values()) == stream.spent + stream.buffered
        and max(persons.counts.values(), default=0) <= most
    )


def _are_bounds(bounds: RowBounds, d: int) -> bool:
    """Return whether a first batch may have released these bounds on rows."""
    found, columns = bounds.distances, bounds.columns
    return (
        _is_table(bounds.centre, (d,))
        and type(bounds.centre_error) in (float, int)
        and 0 <= bounds.centre_error < math.inf
        and _is_positive(bounds.stretch)
        and (bounds.clipped is None or (found is not None and _is_positive(bounds.clipped)))
        and (bounds.reach is None or (found is not None and _is_positive(bounds.reach)))
        and (found is None or _are_distances(found))
        and (columns is None or (found is not None and _are_scales(columns, d)))
    )


def _are_distances(found: NoisyDistances) -> bool:
    return (
        type(found.per_octave) is int
        and found.per_octave >= 1
        and _is_positive(found.rows)
        and _is_positive(found.unseen)
        and _is_table(found.counts, (NO_EXPONENT // 2 * found.per_octave,))
        and bool((found.counts >= 0).all())
    )


def _are_scales(columns: ReleasedScales, d: int) -> bool:
    """Return whether scales are positive numbers, and variances have noise."""
    not_negative = (columns.first, columns.least, columns.centre_error)
    finite = (columns.scale, columns.turn, columns.variances, *not_negative)
    return (
        _is_positive(columns.limit)
        and all(_is_table(each, (d,)) for each in finite)
        and _is_table(columns.noise, (d,), finite=False)
        and all(bool((each > 0).all()) for each in (columns.scale, columns.turn, columns.noise))
        and all(bool((each >= 0).all()) for each in not_negative)
    )


def _are_positive(array: Any, d: int) -> bool:
    return _is_table(array, (d,)) and bool((array > 0).all())


def _is_positive(number: Any) -> bool:
    return type(number) is float and 0 < number < math.inf


def _is_unit(unit: Any) -> bool:
    return set(unit) == {"name", "column"} and asdict(Unit(**unit)) == unit


def _is_reading(read: Any) -> bool:
    return (
        set(read) == {"encoding", "remarks"}
        and all(_is_encoded(**noted) for noted in read["encoding"].values())
        and _are_words(read["remarks"])
    )


def _is_encoded(levels: Any = None, days_since: Any = None) -> bool:
    """Return whether a column is noted as one of levels, or of days."""
    if levels is None:
        return isinstance(days_since, str)
    return days_since is None and _are_words(levels)


def _are_words(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def _is_table(array: Any, shape: tuple[Any, ...], *, finite: bool = True) -> bool:
    typed = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
    return typed and not (finite and not np.isfinite(array).all())


def _is_possible(iterate: OnePassState, settings: dict[str, Any]) -> bool:
    """Return whether a method can stand there, after at least as many directions as it is asked
    for.
    """
    d, k = settings["n_features"], settings["n_components"]
    numbers = (
        iterate.noise_variance,
        iterate.doubt,
        iterate.trace_weight,
        iterate.trace_noise,
    )
    counts = (iterate.records, iterate.steps)
    return (
        iterate.basis.ndim == 2
        and k <= iterate.basis.shape[1] <= d
        and all(
            _is_table(each, (d, iterate.basis.shape[1])) for each in (iterate.basis, iterate.image)
        )
        and all(type(number) is float and number >= 0 for number in numbers)
        and (iterate.column_noise is None or _are_positive(iterate.column_noise, d))
        and type(iterate.trace) is float
        and all(type(count) is int and count >= 0 for count in counts)
    )
