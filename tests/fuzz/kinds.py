"""Which kind of input a case is: its number says so."""

from tests.fuzz import (
    arguments,
    artefacts,
    books,
    commands,
    federations,
    messages,
    readers,
    regressions,
    secure,
    studio,
    tables,
)
from tests.fuzz.case import Make

__all__ = ["KINDS", "kind_of"]

KINDS: dict[str, tuple[Make, int]] = {  # how it is made, and how often in a hundred
    "csv": (tables.csv_case, 8),
    "archive": (tables.archive_case, 2),
    "npy": (tables.npy_case, 6),
    "parquet": (tables.parquet_case, 7),
    "sparse": (readers.sparse_case, 3),
    "sheet": (readers.sheet_case, 2),
    "spelling": (readers.spelling_case, 2),
    "name": (readers.name_case, 1),
    "object": (tables.object_case, 3),
    "argument": (arguments.argument_case, 4),
    "statement": (artefacts.statement_case, 8),
    "array": (artefacts.array_case, 5),
    "container": (artefacts.container_case, 5),
    "regression": (regressions.regression_case, 3),
    "key": (artefacts.key_case, 2),
    "ledger": (books.ledger_case, 7),
    "stream": (books.stream_case, 4),
    "days": (books.days_case, 2),
    "message": (messages.message_case, 5),
    "agreement": (federations.agreement_case, 2),
    "configuration": (federations.configuration_case, 4),
    "secure": (secure.secure_case, 2),
    "journal": (federations.journal_case, 3),
    "answers": (federations.answers_case, 1),
    "envelope": (federations.envelope_case, 1),
    "door": (federations.door_case, 1),
    "option": (commands.option_case, 4),
    "path": (commands.path_case, 3),
    "studio": (studio.studio_case, 1),
}
_ORDER = [kind for kind, (_, often) in KINDS.items() for _ in range(often)]
_STRIDE = 37  # has no divisor in common with a hundred: any few cases are of many kinds


def kind_of(number: int) -> str:
    """Return the kind of a case."""
    return _ORDER[number * _STRIDE % len(_ORDER)]
