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
    """Return the entries of a ledger that a guarantee names, if it holds all of them."""
    named = _HASH.findall(guarantee.ledger or "")
    found = {entry.hash[:16]: entry for entry in ledger.entries}
    return tuple(found[short] for short in named) if set(named) <= found.keys() else ()


def require_paid(release: "Release", ledger: Ledger) -> tuple[Entry, ...]:
    """Return the entries that paid for a release, or for the part of one of its owners.

    Raise `VerificationError` where the ledger does not hold them, or where they cost less than the
    release says was spent.
    """
    for guarantee in (release.guarantee, *(owner.guarantee for owner in release.owners)):
        if entries := entries_named(guarantee, ledger):
            if covers(compose(*(entry.cost for entry in entries)), guarantee.cost):
                return entries
            raise VerificationError(
                f"entry {entries[-1].number} of {ledger} cost less than the release says was "
                "spent: it is not the charge of this release"
            )
    raise VerificationError(
        f"{ledger} holds no entry that the release names: pass the ledger that was charged for it"
    )
