"""What readers must not trust: indices of sparse matrices, sizes of sheets, marks, names."""

import io
import os
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from eigenveil import Ledger, PrivateCovariance
from eigenveil.rows import open_rows
from tests.fuzz.case import Call, Case, Command, Outcome
from tests.fuzz.secrets import number_cell
from tests.fuzz.stock import BUDGET, NAMES, rows
from tests.fuzz.tables import uses

__all__ = ["name_case", "sheet_case", "sparse_case", "spelling_case"]

Random = random.Random


# Sparse matrices


def sparse_case(rng: Random, place: Path) -> Case:
    """A sparse matrix, on disk or in memory, some of whose indices do not fit its shape."""
    shape = (rng.choice((1, 40, 60)), rng.choice((1, 3, 3, 5)))
    entries = rng.choice((0, 1, 30, 90))
    matrix = sparse.coo_matrix(
        (
            [float(number_cell(rng)) for _ in range(entries)],
            (
                [rng.randrange(shape[0]) for _ in range(entries)],
                [rng.randrange(shape[1]) for _ in range(entries)],
            ),
        ),
        shape=shape,
    )
    form = rng.choice(("csr", "csr", "csr", "csc", "bsr", "coo", "dia", "lil"))
    matrix = getattr(matrix, f"to{form}")()
    altered = _altered(rng, matrix) if rng.random() < 0.7 else {}
    if form == "lil" or rng.random() < 0.3:
        for name, array in altered.items():
            if name != "shape":
                setattr(matrix, name, array)
        estimator = PrivateCovariance(rho=1.0, row_norm=1.0, on_invalid="zero")
        call = Call(f"fit({form}, {sorted(altered)})", lambda: _row_by_row(matrix, estimator.fit))
        return Case([call], check=_is_whole)
    stored: dict[str, Any] = {"format": form.encode(), "shape": shape}
    stored |= {name: getattr(matrix, name) for name in _ARRAYS[form]} | altered
    np.savez(place / "table.npz", **stored)
    return uses(rng, place, "table.npz", None)


_ARRAYS = dict.fromkeys(("csr", "csc", "bsr"), ("data", "indices", "indptr")) | {
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
    "lil": ("data", "rows"),
}


def _altered(rng: Random, matrix: Any) -> dict[str, Any]:
    """Return arrays of a matrix, or its shape, that are not what they were."""
    name = rng.choice((*_ARRAYS[matrix.format], "shape"))
    if name == "shape":
        d, n = matrix.shape[::-1]
        odd = ((n, 1), (1, d), (n + 1, d), (n,), (-1, d), (n, 1 << 40), (1 << 60, d), (0, 0))
        return {name: rng.choice(odd)}
    array = np.array(getattr(matrix, name))
    if matrix.format == "lil" and array.size:
        place = rng.randrange(array.size)
        array[place] = rng.choice(([], [0], [7, 8], [-1], [1 << 40], [*array[place], 0]))
        return {name: array}
    match rng.randrange(6):
        case 0:
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(("f8", "u1", ">i4", "i2", "U3", "c16")))
        case 1:
            array = array[: rng.randrange(array.size + 1)]
        case 2:
            array = np.concatenate([array, array])
        case 3:
            array = array.reshape(-1, 1)
        case _:
            flat = array.reshape(-1)
            for _ in range(rng.choice((1, 1, 5))):
                if flat.size:
                    odd = (-1, 0, matrix.shape[1], 7, 60, 1 << 20, (1 << 31) - 1, -(1 << 31))
                    flat[rng.randrange(flat.size)] = rng.choice(odd)
    return {name: array}


def _row_by_row(matrix: Any, fit: Any) -> bool | None:
    """Fit, and return whether every row was the sum of its own entries; None where unknown."""
    source = open_rows(matrix)
    fit(source)
    if matrix.format != "csr":
        return None
    found = np.zeros(matrix.shape)
    for i in range(matrix.shape[0]):
        for k in range(matrix.indptr[i], matrix.indptr[i + 1]):
            if not 0 <= matrix.indices[k] < matrix.shape[1]:
                return False
            found[i, matrix.indices[k]] += matrix.data[k]
    return np.array_equal(found, source.whole(), equal_nan=True)


def _is_whole(outcomes: list[Outcome]) -> str | None:
    return "an entry lies in another row" if outcomes[-1].value is False else None


# Workbooks


def sheet_case(rng: Random, place: Path) -> Case:
    """A workbook that says something else of its size, or whose rows stand in another order."""
    import openpyxl

    n: int | None = rng.choice((0, 1, 40, 60))
    assert n is not None
    book = openpyxl.Workbook()
    book.active.append(list(NAMES))
    for _ in range(n):
        cells = [float(number_cell(rng)) for _ in NAMES]
        book.active.append([max(-1e300, min(cell, 1e300)) for cell in cells])
    if rng.random() < 0.2:
        book.create_sheet("other").append(["a", "b"])
        rng.choice(book.worksheets).sheet_state = rng.choice(("visible", "hidden", "veryHidden"))
        book.worksheets[1].sheet_state = "visible"
        n = None
    buffer = io.BytesIO()
    book.save(buffer)
    stated = rng.choice(("A1", "A1:B9", "A1:C2", "B2:C9", "A1:XFD1048576", "A1:Z1", "C3", ""))
    said = f'<dimension ref="{stated}"/>' if stated else ""
    changes = [(r"<dimension [^>]*/>", said)]
    if rng.random() < 0.4:
        n = None
        changes.append(
            rng.choice(
                (
                    (r'<row r="3"', '<row r="2"'),
                    (r'<row r="3"', '<row r="1048576"'),
                    (r'<row r="2"', "<row"),
                    (r'r="B3"', 'r="A3"'),
                    (r'r="C3"', 'r="ZZ3"'),
                    (r'r="A3"', 'r="A30"'),
                    (r'r="A3"', ""),
                    (r"</sheetData>", '<row r="9999999"><c r="A9999999"><v>1</v></c></row>\\g<0>'),
                    (r"<v>[^<]*</v></c></row>", "<v>1e999</v></c></row>"),
                    (r'<c r="A3"', '<c r="A3" t="d"'),
                )
            )
        )
    path = place / "table.xlsx"
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                for pattern, other in changes:
                    text = re.sub(pattern, other, text.decode(), count=1).encode()
            new.writestr(name, text)
    return uses(rng, place, path.name, n)


# Spellings of numbers


def _spelled(rng: Random, mark: str, signs: bool) -> tuple[str, float]:
    """Return a cell and the number that whoever wrote it means."""
    whole = rng.choice((0, 7, 12, 123, 1000, 1234, 12345, 999999, 1234567, rng.randrange(10**7)))
    digits = rng.choice(("", "", "5", "25", "125", "000", "0001"))
    value = float(f"{whole}.{digits or 0}")
    text = f"{whole:,}" if rng.random() < 0.6 else str(whole)
    text = text.replace(",", "." if mark == "," else ",") + (mark + digits if digits else "")
    if rng.random() < 0.3:
        text, value = f"-{text}", -value
    if signs and rng.random() < 0.7:
        text = rng.choice(("${}", "{} %", "{}%", "{} EUR", "\u20ac {}", "{}\u20ac")).format(text)
    return rng.choice(("{}", "{}", " {}", "{} ")).format(text), value


def spelling_case(rng: Random, place: Path) -> Case:
    """Numbers of either decimal mark, with thousands and signs, between any separators."""
    between = rng.choice((",", ";", "\t"))
    mark = rng.choice((".", ","))
    stated = mark if rng.random() < 0.5 or (between, mark) == (",", ",") else None
    signs = rng.random() < 0.3
    cells = [[_spelled(rng, mark, signs) for _ in NAMES] for _ in range(rng.choice((1, 30)))]
    lines = [between.join(NAMES)]
    lines += [between.join(f'"{text}"' for text, _ in row) for row in cells]
    path = place / "table.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    meant = np.array([[value for _, value in row] for row in cells])
    told: dict[str, Any] = {"columns": list(NAMES), "decimal": stated}
    told |= {"as_number": list(NAMES)} if signs else {}

    def read() -> bool:
        found = open_rows(path, **told).whole()
        right = found == meant
        return bool((right if stated else right | np.isnan(found)).all())

    words = ["fit", path.name, *BUDGET, "--k", "1", "--on-invalid", "zero", "-o", "out"]
    words += ["--columns", ",".join(NAMES)]
    words += [] if stated is None else ["--decimal", stated]
    words += ["--as-number", ",".join(NAMES)] if signs else []
    steps: list[Call | Command] = [Call(f"read({told})", read), Command(tuple(words))]
    return Case(
        steps,
        check=lambda outcomes: None if outcomes[0].value else "a number is read as another one",
    )


# Names


_BYTES = (
    b"t\xff",
    b"\xfe\xfft",
    b"t\xc3",
    b"\xed\xa0\x80",
    b"t\xe9",
    b"\x80t",
    b"t\xf4\x90\x80\x80",
)


def name_case(rng: Random, place: Path) -> Case:
    """Files and columns whose names are not UTF-8, and are shown to nobody as they are."""
    odd = os.fsdecode(rng.choice(_BYTES))
    table, ending = rows(40), rng.choice((".csv", ".csv", ".parquet", ".npy", ".xlsx", ".npz", ""))
    path = place / f"{odd}{ending}"
    name = rng.choice((odd, "gain"))
    header = [*NAMES[:2], name]
    match ending:
        case ".npy":
            np.save(path, table)
        case ".npz":
            np.savez(path, table)
        case ".parquet" | ".xlsx":
            import pandas as pd

            frame, buffer = pd.DataFrame(table, columns=list(NAMES)), io.BytesIO()
            (frame.to_parquet if ending == ".parquet" else frame.to_excel)(buffer, index=False)
            path.write_bytes(buffer.getvalue())
        case _:
            lines = [",".join(header), *(",".join(map(repr, row)) for row in table.tolist())]
            path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    Ledger.create(place / f"{odd}.ledger", epsilon=5.0, delta=1e-6)
    words = [rng.choice(("fit", "covariance", "plan")), path.name, *BUDGET]
    if words[0] != "plan":
        words += ["-o", rng.choice(("out", f"{odd}-out", f"{odd}.zip"))]
        words += ["--ledger", f"{odd}.ledger"] if rng.random() < 0.5 else []
    words += ["--k", "1"] if words[0] != "covariance" else ["--row-norm", "1"]
    for option in ("--columns", "--drop", "--unit", "--encode", "--as-number", "--encoding"):
        if rng.random() < 0.15:
            words += [option, rng.choice((odd, name, f"{name},{odd}", f"{odd}=a,b"))]
    first = Command(tuple(words))
    after = ("inspect", "verify", "report")
    steps: list[Call | Command] = [first]
    if "-o" in words:
        steps.append(Command((rng.choice(after), words[words.index("-o") + 1])))
    steps.append(Command(("ledger", "show", f"{odd}.ledger")))
    return Case(steps)
