"""Columns that nobody should analyse by accident: what they are is asked, by their names and kinds.

An id is known by its name alone, which is public: a number that tells persons apart has no mean.
Text and dates are known by the kind of their column. Whoever names a column in ``columns`` has
answered already.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from eigenveil.exceptions import InvalidDataError, UnexplainedColumnsError
from eigenveil.text import joined, listed, typed
from eigenveil.wording import COLUMNS, Part, Phrase

__all__ = ["TextColumns", "ask_about", "asking_for_regression", "is_named_like_an_id"]

TextColumns: TypeAlias = Mapping[str, bool | None]
"""Columns of text by name: whether cells are amounts, such as $1,200; None if nobody looked."""

_MAX_NAMED = 12  # columns that a message lists in order to keep one of them

_LAST_WORDS = frozenset(["id", "ids", "uuid", "guid", "mrn", "ssn", "nhs", "pid"])
_WHOLE_NAMES = frozenset(
    [
        *("patient", "person", "subject", "participant", "customer", "client", "user", "member"),
        *("student", "employee", "iban", "email", "phone", "telephone", "passport", "pseudonym"),
        *("index", "rowname", "rownames", "rownumber", "seqn", "idcode"),
    ]
)
# patientnumber, case_no, SubjNr: whose or what it is, and a word for a mark that tells it apart.
_NUMBERED = re.compile(
    r"(patient(en)?|pat|pt|person(en)?|subject|u?subj|participant|proband(en)?|donor|respondent"
    r"|case|fall|record|chart|customer|cust|client|user|member|student|employee|emp|personnel"
    r"|account|acct|insurance|policy|encounter|admission|hospital|versicherten)"
    r"(id|no|nr|num|number|nummer|key|code|ref)"
)
_UNNAMED = re.compile(r"unnamed\d+")  # an index that pandas wrote without a name
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def is_named_like_an_id(name: str) -> bool:
    """Return whether a name says that the column tells persons or records apart."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    whole = "".join(words)
    if words[-1] in _LAST_WORDS or (words[0] in ("row", whole) and whole in _WHOLE_NAMES):
        return True
    return any(known.fullmatch(whole) is not None for known in (_NUMBERED, _UNNAMED))


@contextmanager
def asking_for_regression(targets: Sequence[str]) -> Iterator[None]:
    """Ask what a regression can be answered: its target stays, and levels have to be stated."""
    try:
        yield
    except UnexplainedColumnsError as asked:
        for name in targets:
            if name in asked.text:
                raise InvalidDataError(
                    f"the target {name!r} holds no numbers: choose another column, or ", _days(name)
                ) from None
            if name in asked.ids:
                raise InvalidDataError(
                    f"the target {name!r} is named like an id: choose another column, or name the "
                    "features, ",
                    COLUMNS,
                ) from None
        others = [name for name in asked.others if name not in targets]
        ask_about(asked.ids, asked.text, others, named=asked.named, levels_found=False)


def ask_about(
    ids: Sequence[str],
    text: TextColumns,
    others: Sequence[str],
    *,
    named: bool = False,
    levels_found: bool = True,
) -> None:
    """Refuse columns until somebody has said what they are; all of them at once.

    ``ids`` are named like ids, ``text`` holds text or dates, ``others`` can be analysed as they
    are. ``named`` says that all of them were chosen by name, ``levels_found`` that levels of
    categories may be found privately.
    """
    if not ids and not text:
        return
    told: list[Part] = [_found(ids, text), ": "]
    if others:
        told += ["leave out with ", _keep(others) if named else _drop([*ids, *text], others)]
    if ids:
        told += [", " if others else "", "protect all rows of one person together with "]
        told += [_unit(ids[0]), ", or keep it by naming all columns to take, "]
        told += [_keep([*ids[:1], *others], known=not text)]
    amounts = [name for name, is_amount in text.items() if is_amount]
    if words := [name for name, is_amount in text.items() if not is_amount]:
        told += ["; " if others or ids else "", "categories and dates become numbers with "]
        told += [_encode(words[0]) if levels_found else _encode_stated(words[0])]
    if text and (amounts or text[words[0]] is None):
        told += ["; " if others or ids or words else "", "amounts and percentages become numbers "]
        told += ["with ", _as_number(amounts or words[:1])]
    asked = UnexplainedColumnsError(*told)
    asked.ids, asked.text, asked.others, asked.named = ids, text, others, named
    raise asked


def _found(ids: Sequence[str], text: TextColumns) -> str:
    said = []
    if ids:
        like = "is named like an id" if len(ids) == 1 else "are named like ids"
        said.append(f"{_shown(ids)} {like}")
    if text:
        noun, verb = ("column", "holds") if len(text) == 1 else ("columns", "hold")
        said.append(f"{noun} {_shown([*text])} {verb} no numbers")
    return " and ".join(said)


def _shown(names: Sequence[str]) -> str:
    return repr(names[0]) if len(names) == 1 else listed(names)


def _drop(names: Sequence[str], others: Sequence[str]) -> Phrase:
    return Phrase(
        python=f"open_rows(X, drop={list(names)!r})",
        shell=f"--drop {typed([joined(names)])}",
        file=f"columns = {json.dumps(list(others), ensure_ascii=False)}",
        page="their boxes in the list of columns",
    )


def _keep(names: Sequence[str], *, known: bool = True) -> Phrase:
    """Return how columns are named; of many, or beside others, the first alone."""
    if not known or len(names) > _MAX_NAMED:
        return Phrase(
            python=f"columns=[{names[0]!r}, ...]",
            shell=f"--columns {typed([joined(names[:1])])},...",
            file=f"columns = [{json.dumps(names[0], ensure_ascii=False)}, ...]",
            page="its box in the list of columns",
        )
    return Phrase(
        python=f"columns={list(names)!r}",
        shell=f"--columns {typed([joined(names)])}",
        file=f"columns = {json.dumps(list(names), ensure_ascii=False)}",
        page="their boxes in the list of columns",
    )


def _as_number(names: Sequence[str]) -> Phrase:
    return Phrase(
        python=f"open_rows(X, as_number={list(names)!r}, decimal='.'), with decimal=',' where the "
        "comma is the decimal mark",
        shell=f"--as-number {typed([joined(names)])} --decimal . (--decimal , where the comma "
        "is the decimal mark)",
        file="another table, in which they are numbers",
        page="the command line",
    )


def _unit(name: str) -> Phrase:
    return Phrase(
        python=f"open_rows(X, unit={name!r})",
        shell=f"--unit {typed([name])}",
        file=f"unit = {json.dumps(name, ensure_ascii=False)}",
        page=f"{name!r} as who is protected",
    )


def _encode(name: str) -> Phrase:
    word = typed([name])
    return Phrase(
        python=f"open_rows(X, encode={{{name!r}: [...]}}): a list of levels, 'private' to have "
        "them found, or a date to count days from",
        shell=f"--encode {word}=LEVEL,LEVEL, --encode {word} to have levels found privately, or "
        f"--encode {word}=2024-01-31 to count days",
        file="another table, in which they are numbers",
        page="what is chosen beside their names",
    )


def _encode_stated(name: str) -> Phrase:
    word = typed([name])
    return Phrase(
        python=f"open_rows(X, encode={{{name!r}: [...]}}): a list of levels, or a date to count "
        "days from",
        shell=f"--encode {word}=LEVEL,LEVEL, or --encode {word}=2024-01-31 to count days",
        file="another table, in which they are numbers",
        page="what is chosen beside their names",
    )


def _days(name: str) -> Phrase:
    return Phrase(
        python=f"open_rows(X, encode={{{name!r}: ...}}) with a day to count from if it is a date",
        shell=f"--encode {typed([name])}=2024-01-31 if it is a date",
        file="another table, in which it is a number",
        page="what is chosen beside its name",
    )
