"""What every source answers, and what those made of others pass on."""

import re
from pathlib import Path

import numpy as np
import pytest

import eigenveil
from eigenveil.exact import Clip, Project
from eigenveil.privacy import GROUP, ROW, Adjacency
from eigenveil.rows import (
    ArraySource,
    Batch,
    Divide,
    GroupedSource,
    IterableSource,
    PairedSource,
    RowSource,
    count_units,
    open_rows,
    paired,
    shuffled,
    tables,
)


def test_every_source_follows_the_protocol(csv):
    for source in (ArraySource(np.ones((2, 2))), IterableSource([np.ones((1, 1))]), open_rows(csv)):
        assert isinstance(source, RowSource)
        assert open_rows(source) is source


def test_sources_leave_the_handling_of_floats_to_their_reader():
    expected = np.geterr()
    rows = open_rows(np.ones((4, 2)))
    for source in (
        PairedSource(rows, Adjacency.REPLACE_ONE, np.random.default_rng(4).permutation),
        rows.map(Divide(np.ones(2))),
    ):
        for _ in source.chunks():
            assert np.geterr() == expected


def test_chunks_that_fill_the_same_memory_again_are_held_as_they_were():
    def refilled():
        memory = np.empty((2, 3))
        for start in (0.0, 1.0, 2.0):
            memory[:] = start
            yield memory

    class Chunks:
        def __iter__(self):
            return refilled()

    assert IterableSource(Chunks()).whole()[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


ROWS = np.arange(24.0).reshape(8, 3)
REPLACE = Adjacency.REPLACE_ONE
BASIS = np.eye(3)[:, :2]
CHUNKS = [ROWS[:5], ROWS[5:]]
SOURCES = {
    "array": lambda: ArraySource(ROWS),
    "batch": lambda: Batch(ROWS, 10),
    "stated chunks": lambda: IterableSource(CHUNKS, n_columns=3),
    "chunks": lambda: IterableSource(CHUNKS),
    "pairs": lambda: PairedSource(ArraySource(ROWS), REPLACE, np.arange),
    "shuffled": lambda: shuffled(ArraySource(ROWS), np.arange, lambda rows: None),
    "groups": lambda: GroupedSource(ArraySource(ROWS), list("aabbbbcc")),
    "groups of chunks": lambda: GroupedSource(IterableSource(CHUNKS), list("aabbbbcc")),
    "pairs of groups": lambda: paired(
        GroupedSource(ArraySource(ROWS), list("aabbbbcc")), REPLACE, np.arange
    ),
}
ANSWERS = {
    # n_rows, units, protects, sizes, records, whether the number of rows is hidden
    "array": (8, 8, ROW, None, None, True),
    "batch": (8, 8, ROW, None, range(10, 18), True),
    "stated chunks": (None, 8, ROW, None, None, True),
    "chunks": (None, 8, ROW, None, None, False),
    "pairs": (4, 4, ROW, None, None, True),
    "shuffled": (8, 8, ROW, None, None, True),
    "groups": (None, 3, GROUP, [2, 4, 2], None, True),
    "groups of chunks": (None, 3, GROUP, [2, 4, 2], None, False),
    "pairs of groups": (None, 1, GROUP, [4], None, True),
}
WRAPPED = {
    "alone": lambda source: source,
    "scaled": lambda source: source.map(Divide(np.array([1.0, 2.0, np.inf]))),
    "projected": lambda source: source.map(Project(Clip(row_norm=1.0), BASIS)),
    "twice": lambda source: source.map(Divide(np.full(3, 2.0))).map(
        Project(Clip(row_norm=1.0), BASIS)
    ),
}


@pytest.mark.parametrize("around", WRAPPED)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_answers_and_one_around_it_passes_the_answer_on(kind, around):
    source = WRAPPED[around](SOURCES[kind]())
    sizes = source.units.sizes
    answers = (
        source.n_rows,
        count_units(source),
        source.units.protects,
        None if sizes is None else sizes.tolist(),
        source.schema.records,
        source.schema.hides_count,
    )
    assert answers == ANSWERS[kind]
    assert source.rereadable
    owners = [units for _, units in source.unit_tables()]
    assert all((units is None) == (sizes is None) for units in owners)


@pytest.mark.parametrize("around", WRAPPED)
@pytest.mark.parametrize("kind", ["array", "batch", "stated chunks", "chunks", "pairs", "shuffled"])
def test_all_rows_some_rows_and_rows_in_chunks_are_the_same(kind, around):
    source = WRAPPED[around](SOURCES[kind]())
    table = np.concatenate([np.array(chunk) for chunk in tables(source)])
    assert table.shape == (source.count_rows(), source.n_columns)
    assert np.array_equal(source.whole(), table)
    for places in ([], [0], [1, 3], range(len(table))):
        found = source.rows_at(np.array(places, dtype=np.intp))
        assert np.array_equal(found, table[list(places)])


@pytest.mark.parametrize("around", WRAPPED)
@pytest.mark.parametrize("kind", ["groups", "groups of chunks", "pairs of groups"])
def test_all_rows_keep_their_owners(kind, around):
    source = WRAPPED[around](SOURCES[kind]())
    chunks, owners = zip(*source.unit_tables(), strict=True)
    rows, units = source.whole_units()
    assert np.array_equal(rows, np.concatenate(chunks))
    assert np.array_equal(units, np.concatenate(owners))
    assert np.array_equal(np.bincount(units), source.units.sizes)


def test_statistics_learn_from_their_rows_whose_and_which_these_are():
    """But for sums over days, of which one object keeps the units."""
    package = Path(eigenveil.__file__).parent
    texts = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    kinds = "|".join(["Bounded", *re.findall(r"class (\w+)\(Bounded\)", "".join(texts.values()))])
    made = re.compile(rf"(?<!class )\b({kinds})\((?!Bounded)")
    found = {name for name, text in texts.items() if made.search(text)}
    assert found == {"exact/bounded.py", "exact/daily_moments.py"}  # a repr, and sums over days


def test_nobody_asks_for_the_class_of_a_source():
    """But for `open_rows`, which tells sources from tables."""
    package = Path(eigenveil.__file__).parent
    asked = re.compile(r"isinstance\([^()]*\(?[^()]*(Source|Batch|Rows|Units)\b")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if asked.search(path.read_text())
    }
    assert found == {"rows/open.py"}
