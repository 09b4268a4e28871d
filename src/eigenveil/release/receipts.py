"""The ledger entries that a release names, looked up in a ledger."""

import re
from typing import TYPE_CHECKING

from eigenveil.exceptions import VerificationError
from eigenveil.privacy.accounting import compose, covers
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Entry, Ledger

if TYPE_CHECKING:
    from eigenveil.release.artefact import Release

__all__ = ["entries_named", "require_paid"]

_HASH = re.compile(r"\(hash ([0-9a-f]{16})\)")  # as in `Gate.receipt`


def entries_named(guarantee: Guarantee, ledger: Ledger) -> tuple[Entry, ...]:
    """Return the entries of a ledger that a guarantee names, if it holds all of them, each once."""
    return _named(guarantee, ledger.entries)


def _named(guarantee: Guarantee, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    named = dict.fromkeys(_HASH.findall(guarantee.ledger or ""))
    found = {entry.hash[:16]: entry for entry in entries}
    return tuple(found[short] for short in named) if found.keys() >= set(named) else ()


def require_paid(release: "Release", ledger: Ledger) -> tuple[Entry, ...]:
    """Return the entries that paid for a release, or for the part of one of its owners.

    Raise `VerificationError` where the ledger does not hold them, or where they were for another
    promise: of a lower cost, of another unit or other neighbours, or of a release that failed.
    """
    entries = ledger.entries
    for guarantee in (release.guarantee, *(owner.guarantee for owner in release.owners)):
        if named := _named(guarantee, entries):
            _require_charge_of(guarantee, named, entries, ledger)
            return named
    raise VerificationError(
        f"{ledger} holds no entry that the release names: pass the ledger that was charged for it"
    )


def _require_charge_of(
    guarantee: Guarantee, named: tuple[Entry, ...], entries: tuple[Entry, ...], ledger: Ledger
) -> None:
    """Refuse entries that did not pay for what a guarantee promises."""
    failed = {entry.failed for entry in entries}
    if not covers(compose(*(entry.cost for entry in named)), guarantee.cost):
        wrong = "cost less than the release says was spent"
    elif ledger.adjacency is not guarantee.adjacency or named[-1].unit != guarantee.protects:
        wrong = "protects another unit, or under other neighbours, than the release says"
    elif any(entry.number in failed for entry in named):
        wrong = "is noted as failed, so that nothing was released for it"
    else:
        return
    raise VerificationError(
        f"entry {named[-1].number} of {ledger} {wrong}: it is not the charge of this release"
    )
