"""Names of columns: reject a first record in their place, and ask about ids, text and dates.

An id is known by its name alone, which is public: a number that tells persons apart has no mean.
Text and dates are known by the kind of their column. Whoever names a column in ``columns`` has
answered already.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnexplainedColumnsError
from eigenveil.messages import COLUMNS, DROP, LATIN, UTF_16, Part, Phrase, option
from eigenveil.rows.features import hold_text_alone
from eigenveil.text import did_you_mean, joined, listed, typed

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


# What files of other kinds start with, read as text: a byte that is none is replaced.
_OTHER_KINDS = {
    "PK\x03\x04": "an Excel workbook: rename it to end in .xlsx, or export it as CSV",
    "\ufffd\ufffd\x11": "an old Excel workbook: save it as .xlsx or CSV",
    "PAR1\x15": "a parquet file: rename it to end in .parquet",
    "\x1f\ufffd\x08": "a compressed file: rename it to end in .csv.gz",
}

_MISSING = frozenset(["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "NaT"])
_EXPONENT = re.compile(r"(?<=[\d.])[eE](?=[-+\u2212]?\d)")


def check_header(header: Sequence[str], file: str) -> None:
    """Refuse a first line that may be a record, and quote none of it.

    Whatever passes is taken for public names and shown in messages.
    """
    check_encoding("".join(header), file)
    if any(unicodedata.category(character) == "Cc" for name in header for character in name) or (
        len(header) == 1 and "|" in header[0]
    ):
        raise InvalidDataError(
            f"{file} has no first line of names between commas, semicolons or tabs: save it so"
        )
    if not header or any(map(_is_value, header)):
        raise InvalidDataError(f"{file} needs a first line with the names of its columns")


def check_first_line(header: Sequence[str], below: Iterable[Any], file: str) -> None:
    """Refuse a first line that may be a record of a table of text, and quote none of it.

    A missing value in it shows that, or cells ``below`` it, if none is a number. A name that is one
    of an id is no cell of a record. Whoever names a column has said that there are names.
    """
    has_no_names = any(name.strip() in _MISSING for name in header)
    if has_no_names or (not any(map(is_named_like_an_id, header)) and hold_text_alone(below)):
        raise InvalidDataError(
            f"the first line of {file} may be a record: put a line with the names of the columns "
            "first; if there is one, choose columns by name, ",
            COLUMNS,
        )


def check_encoding(start: str, file: str) -> None:
    """Refuse a file of another kind, and one whose first characters are in another encoding.

    There a byte was replaced, or is one of two of each character.
    """
    for mark, advice in _OTHER_KINDS.items():
        if start.startswith(mark):
            raise InvalidDataError(f"{file} is no text but looks like {advice}")
    if start.startswith("\ufffd\ufffd") or "\0" in start:
        raise InvalidDataError(f"{file} is not in UTF-8 but perhaps in UTF-16: pass ", UTF_16)
    if "\ufffd" in start:
        raise InvalidDataError(f"{file} is not in UTF-8: save it so, or pass ", LATIN)


def check_names(names: Iterable[Any], table: str, *, numbered: bool = False) -> None:
    """Refuse names that may be values of a first record, and quote none of them.

    Whoever read a file without a header line has them in a frame, or stored them in a parquet file.
    Labels that are not text are no names: they are not published. Of columns that were ``numbered``
    a whole number is the name.
    """
    texts = (name for name in names if isinstance(name, str))
    if any(_is_value(name) and not (numbered and _is_position(name)) for name in texts):
        raise InvalidDataError(
            f"{table} has a column named like a value, perhaps of a first record: read the file "
            "with header=None, or name all columns"
        )


def refuse_twins(names: Sequence[str]) -> None:
    """Refuse a name that two columns have; names were checked before, as it is shown."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidDataError(f"two columns have the same name, {name!r}: rename one")
        seen.add(name)


def are_positions(metadata: Mapping[str, Any] | None) -> bool:
    """Return whether pandas has noted that it numbered the columns: text stores numbers as text."""
    levels = (metadata or {}).get("column_indexes") or []
    return bool(levels) and all(
        level["pandas_type"].startswith(("int", "uint")) for level in levels
    )


def select_columns(
    available: Sequence[str],
    columns: Sequence[str] | None,
    unit: str | None,
    *,
    drop: Sequence[str] = (),
    encoded: Sequence[str] = (),
    wordy: Callable[[], TextColumns] = dict,
) -> tuple[str, ...]:
    """Return the names of the columns that are taken: those asked for, or all that are not dropped.

    The one of the ``unit`` is no feature. Of those that nobody named, an id is asked about, and
    with it what holds text, as ``wordy`` says.
    """
    refuse_twins(available)
    known, dropped, explained = set(available), set(drop), set(encoded)
    for name in (*drop, *encoded, *((unit,) if unit is not None else ())):
        if name not in known:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, available)}")
    if columns is None:
        left = [name for name in available if name != unit and name not in dropped]
        if not left:
            raise InvalidParameterError(DROP, " leaves no column: drop fewer")
        if ids := [n for n in left if n not in explained and is_named_like_an_id(n)]:
            asked = set(ids) | explained
            taken = known - dropped - {unit}
            text = {n: kind for n, kind in wordy().items() if n in taken and n not in asked}
            ask_about(ids, text, [n for n in left if n and n not in text and n not in asked])
        if "" in left:
            raise InvalidDataError(
                "a column has no name; if it is a row index, choose the others with ", COLUMNS
            )
        columns = left
    elif drop:
        raise InvalidParameterError(
            option("columns"), " names those that are taken: leave ", DROP, " out"
        )
    elif unit is not None and unit in columns:
        raise InvalidParameterError(
            f"{unit!r} says whose row it is and is no feature: leave it out of columns"
        )
    elif not columns:
        raise InvalidParameterError("columns is empty: name at least one")
    for name in columns:
        if name not in known:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, available)}")
    chosen = set(columns)
    if len(chosen) < len(columns):
        raise InvalidParameterError("columns names one column twice: name each once")
    prefixes = {n[:place] for n in available for place, mark in enumerate(n) if mark == "="}
    for name in encoded:
        if name not in chosen:
            raise InvalidParameterError(
                f"{name!r} is encoded, but not taken: add it to columns, or do not drop it"
            )
        if name in prefixes:
            twin = next(n for n in available if n.startswith(f"{name}="))
            raise InvalidDataError(f"{twin!r} is named like a level of {name!r}: rename one")
    return tuple(columns)


def _is_position(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _is_value(cell: str) -> bool:
    """Return whether it may be a number, a date, a telephone number: digits and no letter.

    The e of 7.3e4 is none, whatever stands around the number: a currency, a mark that nobody sees.
    """
    try:
        if not math.isnan(float(cell)):
            return True
    except ValueError:
        pass
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, _EXPONENT.sub("", cell)))
