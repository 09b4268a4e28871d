"""Clauses of a promise about how rows are bounded, which the settings of a release must match."""

from collections.abc import Iterable

from eigenveil.text import percent

KNOWN_TURN = 1000.0  # scales; on shorter circles a mean may well lie whole turns away
_MOST_INTERVALS = 8  # spelled out in the sentence; release.json lists them all
MODEL_CLAUSE = "rows clipped where the assumed model has none (a public rule)"
UNIT_LENGTH_CLAUSE = "every row scaled to unit length about the centre, whatever its length"
NEAR_ROWS_CLAUSE = "rows near the centre divided by a distance that is found privately instead"
ZEROED_CLAUSE = "rows that hold other things than numbers contribute nothing"  # and more words
ENTRIES_CLAUSE = "entries farther than "  # and more words
DRAWN_CLAUSE = "number of rows used, drawn at random: "  # and more words
CENTRE_CLAUSES = {  # how the clause about the centre begins, by the setting
    "none": "the origin is taken as the centre",
    "mean": "the centre is a private mean",
    "located": "the centre is private, found",
    "paired": "no centre: differences of pairs of rows have none",
}


def clamping_clause(low: Iterable[float], high: Iterable[float]) -> str:
    """Describe stated ranges of the columns."""
    pairs = [f"[{one:g}, {other:g}]" for one, other in zip(low, high, strict=True)]
    told = f"{len(pairs)} intervals listed in release.json"
    if len(set(pairs)) == 1:
        told = pairs[0]
    elif len(pairs) <= _MOST_INTERVALS:
        told = ", ".join(pairs)
    return f"entries clamped to {told} (stated by the caller)"


def clipping_clause(norm: float, origin: str) -> str:
    """Describe a clipping distance and its origin."""
    return (
        f"rows farther than {norm:.6g} from the centre pulled in to that distance, which shrinks "
        f"their variance ({origin})"
    )


def entries_clause(limit: float, turn: float) -> str:
    """Describe how far from the centre entries are taken, both in scales of their columns.

    ``turn`` is the shortest over the columns.
    """
    uncounted = "" if turn >= KNOWN_TURN else ", which do not count as changes"
    return (
        f"{ENTRIES_CLAUSE}{limit:.4g} scales from the centre pulled in to that distance, "
        f"after whole turns of {turn:.4g} scales or more are taken off; the centre is known up to "
        f"such turns{uncounted} (chosen by public and private numbers)"
    )


def limits_clause(least: float, most: float, turn: float) -> str:
    """Describe limits on entries that differ between columns, in scales of their columns.

    ``turn`` is the shortest over the columns.
    """
    return (
        f"in each column entries beyond {least:.4g} to {most:.4g} scales from the centre pulled in "
        f"to that distance, after whole turns of {turn:.4g} scales or more are taken off; the "
        "centre is known up to such turns (chosen by public and private numbers)"
    )


def changed_clause(share: float, noise: float, *, of_persons: bool) -> str:
    """Say how many rows limits changed; of persons, the mean over them of each one's share."""
    told = f"{percent(min(max(0.0, share), 1.0), 2)} +- {percent(noise, 2)}"
    whose = "of each one's rows, on average," if of_persons else "of the rows"
    return f"{told} {whose} were changed by these limits (a noisy share)"


def drawn_clause(rows: int) -> str:
    """Say how many rows were used where their number is private; 0 where a count was too small."""
    if rows == 0:
        return f"{DRAWN_CLAUSE}none, as a noisy count of the rows is too small"
    return f"{DRAWN_CLAUSE}{rows:,} (a noisy count of them, less a margin)"


def unit_length_clause(distance: float) -> str:
    """Describe rows scaled to unit length, but for those near the centre."""
    return (
        f"rows farther than {distance:.6g} from the centre scaled to unit length, and nearer rows "
        "divided by that distance, which was found privately"
    )


def with_unit_distance(words: Iterable[str], distance: float) -> tuple[str, ...]:
    """Return clauses that name the distance from which on rows have unit length; zero for all."""
    if not distance:
        return tuple(words)
    return tuple(w.replace(UNIT_LENGTH_CLAUSE, unit_length_clause(distance)) for w in words)


def further_clipping_clause(chosen: float) -> str:
    """Describe a clipping distance that was chosen privately within a stated one."""
    return f"rows then pulled in to {chosen:.6g} (chosen privately)"
