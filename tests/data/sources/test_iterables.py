"""Chunks that somebody else makes."""

import warnings

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import ROW, Adjacency
from eigenveil.rows import (
    Divide,
    GroupedSource,
    IterableSource,
    RowSource,
    count_units,
    is_streamed,
    open_rows,
    require_hidden_count,
)


def test_iterators_are_read_once_and_iterables_again():
    pieces = [np.ones((2, 3)), np.zeros((1, 3))]
    once, again = open_rows(iter(pieces)), IterableSource(pieces)
    assert (once.rereadable, again.rereadable) == (False, True)
    assert once.n_columns == again.n_columns == 3
    assert len(np.concatenate(list(once.chunks()))) == 3
    with pytest.raises(InvalidDataError, match="read already"):
        list(once.chunks())
    for _ in range(2):
        assert len(np.concatenate(list(again.chunks()))) == 3


def test_chunks_may_state_their_columns_and_then_there_may_be_none():
    source = IterableSource(iter([]), n_columns=3)
    assert (source.n_columns, list(source.chunks())) == (3, [])
    with pytest.raises(InvalidParameterError, match="n_columns"):
        IterableSource([], n_columns=0)
    with pytest.raises(InvalidDataError, match="no rows"):
        _ = IterableSource([]).n_columns


class Foreign:
    """Rows of another library: the four members that are needed, and no other."""

    n_columns = 3
    feature_names = ("a", "b", "c")
    rereadable = True

    def __init__(self, rows):
        self.rows = rows

    def chunks(self):
        return iter(np.array_split(self.rows, 7))


@pytest.mark.filterwarnings("ignore:the release has no centre")  # pairs have none
@pytest.mark.parametrize("options", [{}, {"centring": "paired"}, {"mechanism": "oja"}])
def test_rows_of_another_library_are_rows(options):
    rows = np.random.default_rng(5).standard_normal((2000, 3)) * [5.0, 2.0, 1.0]
    source = open_rows(Foreign(rows))
    assert is_streamed(Foreign(rows))
    assert isinstance(source, RowSource)
    assert (source.n_columns, source.schema.feature_names, source.rereadable) == (
        3,
        ("a", "b", "c"),
        True,
    )
    assert (source.n_rows, count_units(source), source.units.protects) == (None, 2000, ROW)
    pca = PrivatePCA(1, epsilon=3.0, delta=1e-6, random_state=5, **options)
    expected = pca.fit(rows).components_
    assert np.array_equal(pca.fit(Foreign(rows)).components_, expected)
    assert pca.feature_names_in_.tolist() == ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pairs have no centre, which scores say
        assert pca.transform(Foreign(rows)).shape == (2000, 1)


def test_what_lacks_a_member_is_no_source():
    class Nameless:
        n_columns, rereadable = 3, True

        def chunks(self):
            raise AssertionError("read")

    assert not is_streamed(Nameless())
    with pytest.raises(InvalidDataError):
        open_rows(Nameless())


def test_chunks_show_whether_there_are_rows_unless_their_columns_are_stated():
    shown, hidden = IterableSource([np.ones((2, 3))]), IterableSource([], n_columns=3)
    for source in (shown, shown.map(Divide(np.ones(3))), GroupedSource(shown, [1, 2])):
        require_hidden_count(source, Adjacency.REPLACE_ONE)
        with pytest.raises(InvalidParameterError, match="n_columns=d"):
            require_hidden_count(source, Adjacency.ADD_REMOVE)
    for source in (hidden, hidden.map(Divide(np.ones(3))), GroupedSource(hidden, [])):
        require_hidden_count(source, Adjacency.ADD_REMOVE)
