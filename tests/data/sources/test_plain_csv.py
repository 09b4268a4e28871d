"""pyarrow's parser beside the strict one: the same numbers, or the same refusal."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eigenveil.exceptions import EigenveilError
from eigenveil.rows import CSVSource, PlainLines, Reading, plain_reader
from eigenveil.rows import csv as csv_module

pytest.importorskip("pyarrow", reason="needs the extra parquet")

CELLS = (
    *("1", "-1", "+1", "1.", ".5", "1e5", "1E-5", "1e", "1e999", "-1e999", "1e-400", "4.9e-324"),
    *("2.2250738585072011e-308", "1.7976931348623159e308", "0.1", "-0", "00012", "1" * 400),
    *("nan", "NaN", "-nan", "inf", "-Infinity", "nan(1)", "inf(1)", "1_000", "0x10", "1f", "1d"),
    *("-", ".", "e", "1..2", "", " ", "1 ", " 1", "\t1", "\x0b1", "1\x0c", "\u00a01", "\u0661"),
    *("NA", "null", "true", "text", "\ufffd", "0." + "0" * 400 + "1", "1;2", "#N/A", "'1'"),
    *('"1"', '"1', '1"', '"1,2"', '"a\nb"', "\r", "\0", "\u2028", "\x85", "\ufeff1"),
)
cells = st.sampled_from(CELLS) | st.floats(allow_nan=False).map(repr)
lines = st.lists(cells, min_size=1, max_size=4).map(",".join)
ends = st.sampled_from(["\n"] * 8 + ["\r\n", "\r", "\n\n", "\r\r\n", ""])
texts = st.lists(st.tuples(lines, ends), max_size=8).map(lambda ls: "".join(a + b for a, b in ls))


def outcome(path, columns=None):
    try:
        source = CSVSource(path, Reading(columns=columns))
        rows = np.concatenate([np.empty((0, source.n_columns)), *source.chunks()])
        return rows.tobytes(), rows.shape, source.count_rows()
    except EigenveilError as error:
        return str(error)


@settings(max_examples=200, deadline=None)
@given(texts, st.sampled_from(["a,b\n", "a,b\r\n", "a\n", "a,b,c\n", "a,b\r"]), st.integers(1, 60))
@example("1,2\n3\n4,5\n", "a,b\n", 4)
@example('1,2\n"3,4\n5",6\n', "a,b\n", 4)
@example("1\n\n2\n", "a\n", 60)
@example("1,2\r3,4\n", "a,b\n", 60)
@example("1,2", "a,b\n", 60)
def test_both_readers_agree_on_every_text(tmp_path_factory, text, header, block):
    path = tmp_path_factory.getbasetemp() / "differential.csv"
    path.write_bytes((header + text).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_module, "_BLOCK_CHARACTERS", block)
        columns = ("b",) if header.startswith("a,b") and block % 3 == 0 else None
        fast = outcome(path, columns)
        patch.setattr(csv_module, "plain_reader", lambda *_: None)
        assert fast == outcome(path, columns)


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_the_number_that_python_reads_or_left_to_it(cell):
    rows = PlainLines(2, (0, 1)).rows(f"{cell},2\n3,4\n")
    if rows is None:
        return
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    assert rows[0, :1].tobytes() == np.array([number]).tobytes() or math.isnan(number)
    assert math.isnan(rows[0, 0]) == math.isnan(number)


def test_plain_lines_are_read_at_once():
    plain = plain_reader(3, [2, 0])
    assert plain.rows("1,x,2\n\n3,y,4\r\n5,,\n").tolist()[:2] == [[2, 1], [4, 3]]
    assert np.isnan(plain.rows("5,,\n")[0, 0])
    for odd in ("1,2\n", "1,2,3,4\n", '1,"2",3\n', "1,2,x\n", "1,2,3\r4,5,6\n", "1,\0,2\n", ""):
        assert plain.rows(odd) is None
    limit = csv_module.csv.field_size_limit()
    assert PlainLines(2, (0, 1)).rows("1" * (limit + 1) + ",2\n") is None
