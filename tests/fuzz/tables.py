"""Tables near valid ones: CSV, .npy and parquet files, and objects in memory."""

import gzip
import io
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import PrivateCovariance, PrivatePCA, Release, StreamingPCA
from eigenveil.rows import open_rows, tables
from tests.fuzz.case import Call, Case, Command, Outcome
from tests.fuzz.secrets import NUMBER, number_cell, text_cell
from tests.fuzz.stock import BUDGET, NAMES, STREAM, loaded, releases, rows
from tests.fuzz.values import NUMBERS, any_json, dumped, mutated_bytes, odd_text

__all__ = [
    "any_object",
    "archive_case",
    "csv_case",
    "csv_table",
    "npy_case",
    "object_case",
    "parquet_case",
    "published",
]

Random = random.Random
_ENDS = ("\n", "\n", "\r\n", "\r", "\n\n", "\n\r", "\x0b\n", "\x0c\n", "\u2028\n", "\x85\n")


# What is done with a table, of any kind.


def uses(rng: Random, place: Path, data: str, n: int | None, text: bytes | None = None) -> Case:
    """Return a case on a table of ``n`` records, None where nobody can know how many."""
    stdin = b""
    named = not data.endswith((".npy", ".npz")) or rng.random() < 0.1
    if text is not None and rng.random() < 0.2:
        data, stdin = "-", text
    columns: tuple[str, ...] = ()
    chosen = list(BUDGET)
    if named and rng.random() < 0.4:
        columns = ("--columns", ",".join(_some(rng, NAMES)))
    if named and rng.random() < 0.2:
        chosen += ["--unit", "gain"]
    for odd in (("--on-invalid", "zero"), ("--on-missing", "centre")):
        if rng.random() < 0.35:
            chosen += odd
    if named and rng.random() < 0.15:
        chosen += rng.choice(
            (
                ("--encode", "job"),
                ("--encode", "age=1,2"),
                ("--encode", "gain=2020-01-01"),
                ("--drop", "gain"),
                ("--censored", "limit"),
                ("--encoding", "latin-1"),
            )
        )
    chosen += columns
    exact = "--unit" not in chosen
    released = ("-o", rng.choice(("out", "out.zip")))
    private: tuple[str, ...] = ()
    steps: list[Command | Call]
    match rng.randrange(8):
        case 0 | 1:
            mechanism = rng.choice(("auto", "spherical", "tangent", "power", "oja"))
            words = ["fit", data, *chosen, "--k", "1", "--mechanism", mechanism, *released]
            steps = [Command(tuple(words), stdin)]
        case 2:
            bound = rng.choice((("--row-norm", "1"), ("--bounds", "0,9"), ("--scale", "private")))
            steps = [Command(("covariance", data, *chosen, *bound, *released), stdin)]
        case 3:
            steps = [Command(("plan", data, *columns, *BUDGET, "--k", "1"), stdin)]
        case 4:
            words = ["stream", data, "--state", "state", "--k", "1", *columns, "--rho", "50"]
            words += ["--batch-size", "10", "--centring", "none", *released]
            steps = [Command(tuple(words), stdin)]
            private = ("state",)
            n = None if n is None else n // 10 * 10  # the others wait
        case 5:
            folder = place / "release"
            folder.mkdir()
            for name, content in releases()["pca"].items():
                (folder / name).write_bytes(content)
            scores = rng.choice(((), ("-o", "scores.csv"), ("-o", "scores.npy")))
            steps = [Command(("transform", "release", data, *scores), stdin, scores=True)]
            private, n = ("scores",), None
        case 6:
            some = _some(rng, NAMES) if columns else None
            path = "standard input.csv" if data == "-" else data
            if data == "-":
                (place / path).write_bytes(stdin)
            read = rng.choice((_read, _read_labels, _fitted))
            steps = [Call(f"{read.__name__}({path!r}, {some})", lambda: read(place / path, some))]
            return Case(steps, check=lambda outcomes: _counted(outcomes, n))
        case _:
            words = ["fit", data, *columns, "--rho", "1", "--adjacency", "add-remove", *released]
            steps = [Command(tuple(words), stdin)]
            exact = False
    check = published(place / released[1], n if exact else None)
    return Case(steps, private, check)


def _some(rng: Random, names: Sequence[str]) -> list[str]:
    return rng.sample(names, rng.randint(1, len(names)))


def _read(path: Path, columns: list[str] | None) -> int:
    source = open_rows(path, columns)
    return sum(len(chunk) for chunk in tables(source))


def _read_labels(path: Path, columns: list[str] | None) -> int | None:
    source = open_rows(path, columns, None if path.suffix in (".npy", ".npz") else "gain")
    _ = source.units.sizes
    return None


def _fitted(path: Path, columns: list[str] | None) -> int:
    source = open_rows(path, columns)
    return int(PrivatePCA(1, rho=1.0, on_invalid="zero").fit(source).release_.settings["n_rows"])


def _counted(outcomes: list[Outcome], n: int | None) -> str | None:
    (outcome,) = outcomes
    if outcome.succeeded and None not in (n, outcome.value) and outcome.value != n:
        return f"{n} records were written and {outcome.value} read"
    return None


def published(out: Path, n: int | None) -> Callable[[list[Outcome]], str | None]:
    """Whether a run that succeeded has left a release of as many records as were written."""

    def check(outcomes: list[Outcome]) -> str | None:
        if not out.exists():
            return None
        if not outcomes[-1].succeeded:
            return f"failed, and left {out.name}"
        released = Release.load(out)
        stated = released.settings["n_rows"]
        if n is not None and stated not in (n, None):
            return f"{n} records were written and {stated} published"
        numbers = np.concatenate([array.ravel() for array in released.arrays.values()])
        if any(f"{x:.9e}".replace(".", "").lstrip("-").startswith(NUMBER) for x in numbers):
            return "publishes a cell"
        return None

    return check


# CSV


def _header(rng: Random, names: Sequence[str]) -> list[str]:
    header = list(names)
    match rng.randrange(20):
        case 0:
            header[rng.randrange(len(header))] = odd_text(rng)
        case 1:
            header[rng.randrange(len(header))] = rng.choice(NUMBERS)
        case 2:
            header.append(rng.choice(header))
        case 3:
            header.append("")
        case 4:  # no first line of names, but a record: with a number in it, so that this is seen
            header = [text_cell(rng) if rng.random() < 0.4 else number_cell(rng) for _ in header]
            header[rng.randrange(len(header))] = number_cell(rng)
        case 5:
            header = [f" {name}" for name in header]
        case 6:
            header = header[: rng.randrange(len(header))]
    return header


def _cell(rng: Random, calm: bool) -> str:
    match -1 if calm else rng.randrange(40):
        case 0:
            return rng.choice(NUMBERS)
        case 1:
            return text_cell(rng)
        case 2:
            return ""
        case 3:
            return rng.choice((" ", "\t")) + number_cell(rng)
        case 4:
            return odd_text(rng).replace("\n", "").replace("\r", "").replace('"', "")
    return number_cell(rng)


def _lines(rng: Random, width: int, n: int) -> list[list[str]]:
    calm = rng.random() < 0.5
    rows = [[_cell(rng, calm) for _ in range(width)] for _ in range(n)]
    if rows and rng.random() < 0.15:
        odd = rng.choice(rows)
        match rng.randrange(3):
            case 0:
                odd.append(number_cell(rng))
            case 1:
                odd.pop()
            case 2:
                odd[0] = number_cell(rng) * rng.choice((1000, 20000))
    return rows


def csv_table(rng: Random) -> tuple[bytes, int | None]:
    """Return the bytes of a CSV file near a valid one, and how many records a reader must find."""
    names = rng.choice((NAMES, NAMES, NAMES[:1], (*NAMES, "job"), NAMES[::-1]))
    n = rng.choice((0, 1, 2, 30, 45, 60))
    header, rows = _header(rng, names), _lines(rng, len(names), n)
    end = rng.choice(_ENDS) if rng.random() < 0.3 else "\n"
    known = end in ("\n", "\r\n", "\r") and not any(set('",\n\r') & set("".join(header)))
    known = known and len(header) > 1 and not any("," in cell for row in rows for cell in row)
    known = known and all(any(row) and len(row) > 1 for row in rows)
    records = [",".join(row) for row in rows]
    lines = [",".join(header), *records]
    if rng.random() < 0.35:
        lines, known = _disturbed(rng, lines), False
    text = end.join(lines) + end * rng.choice((0, 1, 1, 1, 2))
    data, encoded = _encoded(rng, text)
    if rng.random() < 0.1:
        data, encoded = mutated_bytes(rng, data), False
    return data, n if known and encoded else None


def csv_case(rng: Random, place: Path) -> Case:
    """A CSV file: quotes, line ends, encodings, uneven rows, huge cells, header tricks."""
    data, n = csv_table(rng)
    path = place / "table.csv"
    if rng.random() < 0.1:
        packed = gzip.compress(data, mtime=0)
        if rng.random() < 0.5:
            packed, n = mutated_bytes(rng, packed), None
        path = place / "table.csv.gz"
        path.write_bytes(packed)
        return uses(rng, place, path.name, n)
    path.write_bytes(data)
    return uses(rng, place, path.name, n, data)


def _disturbed(rng: Random, lines: list[str]) -> list[str]:
    """Return lines of which one is not what it was."""
    at = rng.randrange(len(lines))
    line = lines[at]
    cells = line.split(",")
    match rng.randrange(9):
        case 0:
            lines[at] = f'"{line}'
        case 1:
            lines[at] = line.replace(",", '",', 1)
        case 2:
            lines[at] = ",".join(f'"{cell}"' for cell in cells)
        case 3:
            lines[at] = ",".join([f'"{cells[0]}\n{text_cell(rng)}"', *cells[1:]])
        case 4:
            lines[at] = line.replace(",", ";")
        case 5:
            lines[at] = line.replace(",", "\t")
        case 6:
            lines[at] = f"{line}\0"
        case 7:
            lines.insert(at, "," * (len(cells) - 1))
        case 8:
            lines = [each.replace(",", ";") for each in lines]
    return lines


def _encoded(rng: Random, text: str) -> tuple[bytes, bool]:
    """Return the bytes of a text, and whether they are UTF-8."""
    match rng.randrange(16):
        case 0:
            return text.encode("utf-8-sig", "replace"), True
        case 1:
            return text.encode("utf-16", "replace"), False
        case 2:
            return text.encode("latin-1", "replace"), False
        case 3:
            return b"\xff" + text.encode("utf-8", "replace"), False
        case 4:
            return b"\xef\xbb\xbf\xef\xbb\xbf" + text.encode("utf-8", "replace"), False
    return text.encode("utf-8", "replace"), True


# Archives


def archive_case(rng: Random, place: Path) -> Case:
    """A workbook or an archive of arrays: their files, what is in them, and damage."""
    n = rng.choice((0, 1, 40, 60))
    rows = [[float(number_cell(rng)) for _ in NAMES] for _ in range(n)]
    buffer = io.BytesIO()
    if rng.random() < 0.5:
        path = place / "table.npz"
        arrays = [np.array(rows or np.empty((0, 3)))] * rng.choice((1, 1, 1, 2))
        np.savez(buffer, *arrays)
    else:
        path = place / "table.xlsx"
        import openpyxl

        book = openpyxl.Workbook()
        book.active.append([rng.choice((name, name, name, None, 7)) for name in NAMES])
        for row in rows:
            cells = [number if abs(number) < 1e300 else None for number in row]
            book.active.append([text_cell(rng) if rng.random() < 0.02 else cell for cell in cells])
        book.save(buffer)
    data = buffer.getvalue()
    if rng.random() < 0.6:
        data = mutated_bytes(rng, data)
    path.write_bytes(data)
    return uses(rng, place, path.name, None)


# .npy


def npy_case(rng: Random, place: Path) -> Case:
    """An array file: its header, its body, and both at odds."""
    n = rng.choice((0, 1, 40, 60))
    kind = rng.choice(("<f8", "<f8", "<f8", ">f8", "<f4", "<i8", "<u2", "|b1", "<f2"))
    table = np.array([[float(number_cell(rng)) for _ in range(3)] for _ in range(n)] or [[0] * 3])
    with np.errstate(all="ignore"):
        body = np.clip(table[:n], -1e4, 1e4).astype(kind).tobytes()
    described = {"descr": kind, "fortran_order": rng.random() < 0.2, "shape": (n, 3)}
    text = repr(described)
    known = True
    if rng.random() < 0.6:
        known = False
        match rng.randrange(6):
            case 0:
                odd = ("|O", "<c16", "<M8[s]", "|S9", "<U4", "|V8", "<f16", "x", "", "<i1", "<f3")
                described["descr"] = rng.choice((*odd, [("a", "<f8")], [("a", "<f8", (2,))], 3))
                text = repr(described)
            case 1:
                odd = ((), (n,), (n, 3, 1), (-1, 3), (n, 0), (0, 10**12), (10**18, 10**18), n, "x")
                described["shape"] = rng.choice(
                    (*odd, (n, 3.0), (True, 3), (n, None), (10**400, 3))
                )
                text = repr(described)
            case 2:
                described["fortran_order"] = rng.choice((None, 1, "no", [], 1e400))
                text = repr(described)
            case 3:
                text = mutated_bytes(rng, text.encode()).decode("latin-1")
            case 4:
                text = rng.choice(("(" * 9000, "-" * 9900 + "1", "{", "", "{}", "[]", "1" * 9000))
            case 5:
                body = mutated_bytes(rng, body)
    version = rng.choice(((1, 0), (1, 0), (2, 0), (3, 0))) if rng.random() < 0.9 else (9, 9)
    encoded = text.encode("latin-1", "replace")
    pad = b" " * (-(len(encoded) + 11) % 64) + b"\n" if rng.random() < 0.9 else b""
    size = struct.pack("<H" if version == (1, 0) else "<I", min(len(encoded + pad), 65535))
    data = b"\x93NUMPY" + bytes(version) + size + encoded + pad + body
    if rng.random() < 0.1:
        data, known = mutated_bytes(rng, data), False
    path = place / "table.npy"
    path.write_bytes(data)
    return uses(rng, place, path.name, n if known else None)


# Parquet


def _array(rng: Random, n: int) -> Any:
    """Return a column of some type; most hold secrets."""
    import pyarrow

    numbers = [float(number_cell(rng)) for _ in range(n)]
    small = [min(max(x, -1e4), 1e4) for x in numbers]
    match rng.randrange(60):
        case 0:
            return pyarrow.array([text_cell(rng) for _ in range(n)])
        case 1:
            kinds = (pyarrow.int8(), pyarrow.uint64(), pyarrow.int64(), pyarrow.float16())
            kind = rng.choice((*kinds, pyarrow.float32(), pyarrow.bool_()))
            return pyarrow.array(np.arange(n) % 2, pyarrow.int64()).cast(kind)
        case 2:
            return (
                pyarrow.array(small)
                .cast(pyarrow.int64(), safe=False)
                .cast(rng.choice((pyarrow.timestamp("ms"), pyarrow.duration("s"), pyarrow.int64())))
            )
        case 3:
            return pyarrow.array(
                [[x] for x in numbers] or [[0.0]][:n], pyarrow.list_(pyarrow.float64())
            )
        case 4:
            return pyarrow.array([text_cell(rng) for _ in range(n)]).dictionary_encode()
        case 5:
            return pyarrow.nulls(n)
        case 6:
            return pyarrow.array([{"x": x} for x in numbers], pyarrow.struct([("x", "float64")]))
        case 7:
            return pyarrow.array([text_cell(rng).encode() for _ in range(n)], pyarrow.binary())
        case 8:
            return pyarrow.array(small).cast(pyarrow.decimal128(20, 3), safe=False)
        case 9:
            return pyarrow.array([None if rng.random() < 0.3 else x for x in numbers], "float64")
        case 10:
            return pyarrow.array([float(rng.choice(("nan", "inf", "1e308"))) for _ in range(n)])
    return pyarrow.array(numbers, "float64")


def parquet_case(rng: Random, place: Path) -> Case:
    """A parquet file: odd types, names and notes of pandas, flipped and cut bytes."""
    import pyarrow
    from pyarrow import parquet

    n = rng.choice((0, 1, 40, 60))
    names = list(rng.choice((NAMES, NAMES, NAMES, (*NAMES, "job"), ())))
    if names and rng.random() < 0.2:
        odd = odd_text(rng) if rng.random() < 0.6 else number_cell(rng)
        names[rng.randrange(len(names))] = odd.encode("utf-8", "replace").decode()
    table = pyarrow.Table.from_arrays([_array(rng, n) for _ in names], names=names)
    if rng.random() < 0.2:
        noted = {"index_columns": ["gain"], "column_indexes": [{"pandas_type": "int64"}]}
        stored = dumped(any_json(rng) if rng.random() < 0.5 else noted)
        table = table.replace_schema_metadata({"pandas": stored, "odd": text_cell(rng)})
    buffer = io.BytesIO()
    try:
        options = {"compression": rng.choice(("none", "snappy", "zstd", "gzip"))}
        parquet.write_table(table, buffer, row_group_size=rng.choice((7, 1000)), **options)
    except (pyarrow.ArrowException, NotImplementedError):  # not every type can be stored
        return csv_case(rng, place)
    data = buffer.getvalue()
    known = bool(names)
    if rng.random() < 0.4:
        data, known = mutated_bytes(rng, data), False
    path = place / "table.parquet"
    path.write_bytes(data)
    return uses(rng, place, path.name, n if known else None)


# In memory


def any_object(rng: Random) -> Any:
    """Return what somebody may pass for a table."""
    cells = [[number_cell(rng) for _ in range(3)] for _ in range(rng.choice((0, 1, 5, 40)))]
    numbers = [[float(cell) for cell in row] for row in cells]
    words = [[text_cell(rng) for _ in range(3)] for _ in range(3)]
    match rng.randrange(20):
        case 0:
            return cells
        case 1:
            return [*numbers, [1.0]]
        case 2:
            return np.array(words)
        case 3:
            return np.array([*cells, *words], dtype=object)
        case 4:
            return np.array(numbers)[:, :, None] if numbers else np.empty((0, 3, 1))
        case 5:
            return np.array(numbers, dtype=complex)
        case 6:
            return np.ma.masked_greater(np.array(numbers), 1.0)
        case 7:
            return {"age": cells}
        case 8:
            return iter([np.array(numbers), np.array(words)])
        case 9:
            return iter(numbers)
        case 10:
            return [[any_json(rng) for _ in range(3)] for _ in range(4)]
        case 11:
            return rng.choice((None, 1, "", b"", object(), set(), range(3), lambda: 1, Path(".")))
        case 12:
            with np.errstate(all="ignore"):
                kind = rng.choice(("f2", "f4", "f8", "longdouble", ">f8"))
                return np.array(numbers, dtype=kind)
        case 13:
            return np.array([("x", 1.0)], dtype=[("name", "U9"), ("value", "f8")])
        case 14:
            return np.array([["2024-01-01"]], dtype="M8[D]")
        case 15:
            return np.array(numbers).T
        case 16:
            return [np.array(numbers), words]
        case 17:
            import polars

            return polars.DataFrame({"a": [row[0] for row in cells], "b": numbers})
        case 18:
            import pyarrow

            return pyarrow.table({"a": _array(rng, 9), "b": _array(rng, 9)})
    return np.array(numbers)


def _scored(rng: Random, given: Any) -> Call:
    """Something in memory, to what knows its columns already."""
    if rng.random() < 0.5:
        return Call(
            f"transform({given!r:.200})",
            lambda: loaded(releases()["pca"]).transform(given),
            warns=("the release has no centre",),
        )
    pca = StreamingPCA(1, **STREAM).partial_fit(rows(30))
    label = rng.choice((None, "day", "", 7))
    return Call(
        f"partial_fit({given!r:.200})",
        lambda: pca.partial_fit(given, batch=label),
        raises=(ValueError,),  # of scikit-learn, about the number of columns
        warns=("feature names",),
    )


def object_case(rng: Random, place: Path) -> Case:
    """Something in memory, to the estimator."""
    given = any_object(rng) if rng.random() < 0.8 else rows(40)
    if rng.random() < 0.3:
        return Case([_scored(rng, given)])
    options: dict[str, Any] = {"on_invalid": "zero"} if rng.random() < 0.5 else {}
    groups = None if rng.random() < 0.8 else [text_cell(rng) for _ in range(rng.randrange(4))]

    def fit() -> Any:
        return PrivatePCA(1, rho=1.0, **options).fit(given, groups=groups)

    def fit_covariance() -> Any:
        return PrivateCovariance(rho=1.0, row_norm=1.0, **options).fit(given, groups=groups)

    name = f"({options}, {groups}).fit({given!r:.200})"
    return Case([rng.choice((Call(f"PCA{name}", fit), Call(f"Covariance{name}", fit_covariance)))])
