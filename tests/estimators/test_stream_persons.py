"""Streams of persons: one row of each in an arrival, a stated number in all, charged together."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from eigenveil import Ledger, Release, StreamingPCA, open_rows
from eigenveil.estimators import Arrival, Persons, State, StreamProgress
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, StateError
from eigenveil.mechanisms import Gate
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import (
    GROUP,
    ZCDP,
    Adjacency,
    Budget,
    Composed,
    Gaussian,
    Pure,
    fits,
    for_group,
)
from tests.estimators.streams import STRONG, charges, label

PERSONS = {**STRONG, "centring": "none", "batch_size": 40, "max_arrivals": 3}


def days(n_days=4, persons=60, seed=0):
    """Return arrivals: rows with one or two a person, and whose they are."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n_days):
        ids = np.concatenate([np.arange(persons), rng.integers(0, persons, 20)])
        found.append((rng.standard_normal((len(ids), 3)) * [3, 1, 1], ids))
    return found


@pytest.fixture
def batches(monkeypatch):
    """Return the list of batches that a stream hands out."""
    seen, take = [], StreamProgress.take

    def watched(self, size):
        batch = take(self, size)
        seen.append(batch.array.copy())
        return batch

    monkeypatch.setattr(StreamProgress, "take", watched)
    return seen


def fed(arrivals, **options):
    pca = StreamingPCA(1, **{**PERSONS, **options})
    for rows, ids in arrivals:
        pca.partial_fit(rows, groups=ids)
    return pca.finish()


# Who contributes what.


def test_a_person_has_one_row_of_an_arrival_and_a_stated_number_in_all(batches):
    """Rows carry the number of their person and of their day."""
    arrivals = [
        (np.column_stack([ids + 1.0, np.full(len(ids), day + 1.0), rows[:, 2]]), ids)
        for day, (rows, ids) in enumerate(days(n_days=5))
    ]
    pca = fed(arrivals)
    used = np.vstack(batches)
    assert len(used) == pca.n_samples_ == 60 * 3
    assert max(Counter(used[:, 0]).values()) == 3
    assert max(Counter(map(tuple, used[:, :2])).values()) == 1
    assert set(used[:, 1]) == {1.0, 2.0, 3.0}  # the first three days of each


def test_counts_are_kept_between_processes(tmp_path, batches):
    """A person who came three times before is known again, as a number or a float."""
    ledger = Ledger.create(tmp_path / "ledger", rho=200.0, unit="person")
    for day, (rows, ids) in enumerate(days(n_days=5)):
        pca = StreamingPCA(1, **PERSONS, state=tmp_path / "state", ledger=ledger)
        pca.partial_fit(rows, groups=ids.astype(float) if day % 2 else ids, batch=str(day))
    assert pca.finish().n_samples_ == sum(map(len, batches)) == 180
    (entry,) = charges(ledger)
    assert (entry.unit, entry.cost) == (GROUP, pca.privacy_.cost)
    kept = State.load(tmp_path / "state", StreamProgress)
    assert set(kept.persons.counts.values()) == {3}
    assert not {str(i).encode() for i in range(60)} & set(kept.persons.counts)  # hashes, not ids


def test_a_state_whose_counts_do_not_add_up_is_refused(tmp_path):
    faults = (
        lambda s: s.persons.counts.popitem(),
        lambda s: setattr(s, "persons", None),
        lambda s: s.settings["unit"].update(name="nobody"),
        lambda s: s.settings["read"]["encoding"].update(a={"levels": 3}),
        lambda s: s.settings.update(ids="colours"),
    )
    for number, fault in enumerate(faults):
        state = tmp_path / f"state{number}"
        rows, ids = days()[0]
        pca = StreamingPCA(1, **PERSONS, state=state).partial_fit(rows, groups=ids, batch=label())
        stream = State.load(state, StreamProgress)
        fault(stream)
        stream.save(records=True)
        with pytest.raises(StateError, match="not a whole state"):
            pca.partial_fit(rows + 1, groups=ids, batch=label())


def test_arrays_of_persons_survive_the_round_trip():
    persons = Persons()
    persons.arrive(persons.hashed(["a", "b", "a"]))
    again = Persons.read({}, persons.arrays())
    assert (again.key, again.counts) == (persons.key, persons.counts)
    assert sorted(again.counts.values()) == [1, 2]
    assert Persons.read({}, {}) is None
    for name in persons.arrays():
        with pytest.raises(ValueError, match=r"^$|zip\(\)"):
            Persons.read({}, {**persons.arrays(), name: np.zeros(3, dtype=np.int64)})


def test_an_interrupted_arrival_has_counted_its_persons(monkeypatch):
    (first, ids), (second, others), *_ = days()
    pca = StreamingPCA(1, **PERSONS).partial_fit(first, groups=ids)
    counts = pca._state.persons.counts
    before = sum(counts.values())

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(StreamProgress, "arrive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pca.partial_fit(second, groups=others)
    assert sum(counts.values()) > before


def test_a_person_is_one_however_spelled(batches):
    (first, ids), (second, _), *_ = days()
    pca = StreamingPCA(1, **{**PERSONS, "max_arrivals": 1})
    pca.partial_fit(first, groups=ids)
    counts = dict(pca._state.persons.counts)
    pca.partial_fit(second[: len(ids)], groups=[f"0{i}.0" for i in ids])
    assert pca._state.persons.counts == counts
    pca.partial_fit(second[:2], groups=np.array(["2026-01-01"] * 2, "datetime64[D]"))
    key = Persons()
    assert len(set(key.hashed([7, 7.0, np.int64(7), "07", " 7 ", b"7", 10**400]))) == 2
    assert key.hashed(["7"]) != Persons().hashed(["7"])  # another key


def test_counts_of_an_earlier_version_hold_whatever_the_spelling():
    """It noted that ids were text, and kept 0007 and 7 apart."""
    persons = Persons()
    for spelling in ("0007", "7", "8.0", "x"):
        persons.arrive([persons._hash(spelling)])
    ids = ["0007", "8", "x", "y"]
    arrived = persons.hashed(ids, [[label] for label in ids])
    assert [persons.taken(person) for person in arrived] == [2, 1, 1, 0]
    assert persons.admitted(arrived, 2).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "label", ["1.10", "0" * 30 + "7", "1e5", "-07", "\uff17", "7.00", "INF", " a "]
)
def test_counts_of_an_earlier_version_hold_for_the_same_spelling(label):
    persons = Persons()
    persons.arrive([persons._hash(label.strip())])
    (arrived,) = persons.hashed([label], [[label]])
    assert persons.taken(arrived) == 1


# The promise.


class Coupled:
    """Orders of two neighbouring streams drawn together: person p' takes the place of p."""

    def __init__(self, arrival, rank):
        self._arrival, self._rank = arrival, rank

    def order(self, n):
        arrival = self._arrival
        ranks = np.array([self._rank[person] for person in arrival.persons])
        if n == len(arrival.persons):
            return np.argsort(ranks)
        return np.lexsort([arrival.rows[:, 0], ranks[arrival.owners]])


def neighbours(m, replaced, shuffle):
    """Return two streams that differ in one person, who comes more often than m times."""
    one = days(n_days=m + 2, seed=3)
    rng = np.random.default_rng(4)
    other = []
    for rows, ids in one:
        keep = ids != 7
        moved = np.tile([0.0, 9.0, 0.0], (replaced, 1))  # another person, as many rows as you like
        both = np.vstack([moved, rows[keep]]), np.concatenate([[999] * replaced, ids[keep]])
        order = rng.permutation(len(both[0])) if shuffle else slice(None)
        other.append((both[0][order], both[1][order]))
    for rows, ids in one:
        rows[ids == 7] = [9.0, 0.0, 0.0]
    return one, other


@pytest.fixture
def coupled(monkeypatch):
    """Draw the orders of neighbouring streams together."""
    ranks, inner = {}, Arrival.one_row_each

    def hashed(self, ids, _):
        for each in ids:
            ranks[str(each).encode()] = 7 if each == 999 else int(each)
        return [str(each).encode() for each in ids]

    monkeypatch.setattr(Persons, "hashed", hashed)
    monkeypatch.setattr(Arrival, "one_row_each", lambda self, _: inner(self, Coupled(self, ranks)))


@pytest.mark.parametrize(("replaced", "shuffle"), [(1, False), (4, True)])
def test_replay_one_person_moves_so_many_records_and_no_other(replaced, shuffle, coupled, batches):
    """Another person with other numbers of rows at other places, all arrivals sorted anew."""
    m, handed = PERSONS["max_arrivals"], []
    for arrivals in neighbours(m, replaced, shuffle):
        batches.clear()
        fed(arrivals)
        handed.append(list(batches))
    one, other = handed
    assert [len(batch) for batch in one] == [len(batch) for batch in other]
    moved = [int((a != b).any(axis=1).sum()) for a, b in zip(one, other, strict=True)]
    assert sum(moved) == m


def test_what_a_person_moves_is_what_is_charged(coupled, monkeypatch):
    """All rows of the person lie in one batch: m records at the step's mu each, no less."""
    seen, draw = [], Gate.draw

    def noted(gate, step, query):
        seen.append((query, step.cost()))
        return draw(gate, step, query)

    monkeypatch.setattr(Gate, "draw", noted)
    m = PERSONS["max_arrivals"]
    fitted = [
        fed(arrivals, batch_size=60 * m, random_state=0) for arrivals in neighbours(m, 2, True)
    ]
    (one, cost), (other, _) = seen  # one batch each, about the same random basis
    distance = np.linalg.norm(one.value.to_float() - other.value.to_float())
    moved = distance / one.sensitivity("l2") * cost.mu
    assert moved == pytest.approx(fitted[0].privacy_.cost.mu, rel=1e-4)
    assert fits(fitted[0].privacy_.cost, Budget(**STRONG))
    louder = Gaussian(fitted[0].privacy_.cost.mu * (1 + 1e-9))
    assert not fits(louder, Budget(**STRONG))  # and the budget is used


def test_a_cost_for_several_records():
    assert for_group(Gaussian(0.3), 4) == Gaussian(1.2)
    assert for_group(ZCDP(0.5), 3) == ZCDP(4.5)
    mixed = Composed((Gaussian(0.5), Pure(0.25)))
    assert for_group(mixed, 2) == Composed((Gaussian(1.0), Pure(0.5)))
    assert for_group(mixed, 1) == mixed


def test_choice_and_order_do_not_depend_on_how_many_rows_a_person_has():
    """Chi-square at 1e-6: six orders of three persons, five rows of one. The order in which rows of
    a shuffled table first show a person is rejected: those with many rows come first.
    """
    owners = np.array([0, 1, 1, 2, 2, 2, 2, 2])
    arrival = Arrival(np.arange(8.0)[:, None], owners, [b"a", b"b", b"c"])
    gate = Gate(
        Gaussian(1.0),
        label="x",
        adjacency=Adjacency.REPLACE_ONE,
        ledger=None,
        noise=SimulationSource(0),
    )
    trials, orders, chosen, naive = 1200, Counter(), Counter(), Counter()
    for _ in range(trials):
        rows, persons = arrival.one_row_each(gate)
        orders[tuple(persons)] += 1
        chosen[rows[persons.index(b"c"), 0]] += 1
        seen = owners[gate.order(8)]
        naive[tuple(dict.fromkeys(seen.tolist()))] += 1

    def too_far(counts, kinds):
        expected = trials / kinds
        missing = (kinds - len(counts)) * expected
        distance = sum((n - expected) ** 2 / expected for n in counts.values()) + missing
        return distance > chi2.isf(1e-6, kinds - 1)

    assert not too_far(orders, 6)
    assert not too_far(chosen, 5)
    assert too_far(naive, 6)


def test_the_promise_says_who_is_protected_and_how_often(tmp_path):
    table = tmp_path / "day.csv"
    rows, ids = days(persons=300)[0]
    lines = [",".join(map(str, [*row, f"p{i}"])) for row, i in zip(rows, ids, strict=True)]
    table.write_text("a,b,c,patient_id\n" + "\n".join(lines) + "\n")
    pca = StreamingPCA(1, **PERSONS)
    pca.partial_fit(open_rows(table, unit="patient_id"))
    told = pca.privacy_.sentence()
    assert (
        "all rows of one person (rows that share a value of 'patient_id', where 7, 007 and 7.0 are "
        "the same), used in at most 3 arrivals" in told
    )
    assert "one person that comes in the same arrivals" in told
    assert "the number of persons in each arrival is public" in told
    assert "in which arrivals a person came" in told
    assert "of the whole stream 3 rows" in told
    saved = pca.release_.save(tmp_path / "release")
    again = Release.load(saved)
    assert again.guarantee == pca.privacy_
    assert '"arrivals": 3' in (saved / "release.json").read_text()
    page = (saved / "report.html").read_text("utf-8")
    assert "Every person, in at most 3 arrivals" in page
    assert "from 280 rows" in page


def test_fit_of_persons_takes_one_row_of_each(batches):
    rows, ids = days(persons=400)[0]
    pca = StreamingPCA(1, **{**PERSONS, "max_arrivals": 1}, random_state=0).fit(rows, groups=ids)
    assert pca.n_samples_ == 400
    assert not pca.privacy_.arrival
    assert pca.privacy_.protects == GROUP


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"max_arrivals": None}, {"groups": [1, 2]}, "max_arrivals=5"),
        ({}, {}, "groups=ids"),
        ({"max_arrivals": 0}, {"groups": [1, 2]}, "positive integer"),
        ({"max_arrivals": 1001}, {"groups": [1, 2]}, "1,000 at most"),
        ({}, {"groups": [1]}, "one id for each row"),
        ({}, {"groups": [1, None]}, "no id that says whose"),
    ],
)
def test_mistakes(options, given, words):
    error = (InvalidParameterError, InvalidDataError)
    with pytest.raises(error, match=words):
        StreamingPCA(1, **{**PERSONS, **options}).partial_fit(np.ones((2, 3)), **given)


def test_a_ledger_of_rows_pays_for_no_persons(tmp_path):
    rows, ids = days()[0]
    ledger = Ledger.create(tmp_path / "rows", rho=200.0)
    with pytest.raises(InvalidParameterError, match="protects"):
        StreamingPCA(1, **PERSONS, ledger=ledger).partial_fit(rows, groups=ids, batch=label())
    assert ledger.entries == ()


def test_a_stream_stays_with_its_column(tmp_path):
    table = tmp_path / "day.csv"
    table.write_text("a,b,c,p,q\n" + "".join(f"{i},2,3,x{i},y{i}\n" for i in range(5)))
    pca = StreamingPCA(1, **PERSONS)
    pca.partial_fit(open_rows(table, unit="p", drop=["q"]))
    with pytest.raises(StateError, match="another column"):
        pca.partial_fit(open_rows(table, unit="q", drop=["p"]))
