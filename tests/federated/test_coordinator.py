"""The coordinator: who fails is named and left out, who restarts goes on."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError, QuorumLostError, StateError
from eigenveil.federated.agreement import Limits
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Code, Refusal, encode
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Approx
from eigenveil.release.artefact import Release
from tests.federated.stubs import NAMES, Clock, K, Stub, Wire, agreement, rotated

DECLARES = "invitation".__eq__
ONE, TWO, NAN = (struct.pack("<d", number) for number in (1.0, 2.0, math.nan))


def wire(keys: bool = True, **stubs: Stub) -> Wire:
    return Wire({f"n-{name}": stubs.get(name, Stub(name)) for name in NAMES}, keys=keys)


def run(transport: Wire, journal: Journal | None = None, **changes: Any) -> Release:
    clock = Clock()
    coordinator = Coordinator(
        agreement(**changes), journal or Journal(), clock=clock, sleep=clock.sleep
    )
    return coordinator.run(transport)


def known(records: int) -> Limits:
    """All that the stubs declare."""
    return Limits(records=records, epsilon=1.0, delta=1e-6, mechanism="spherical")


def left_out(release: Release) -> set[tuple[str, str, str]]:
    listed = release.settings["federation"]["left_out"]
    return {(each["round"], each["owner"], each["code"]) for each in listed}


def weights(release: Release) -> dict[str, float]:
    return {owner.name: owner.basis_weight for owner in release.owners if owner.basis_weight}


@pytest.mark.parametrize("keys", [True, False])
def test_everybody_contributes(keys: bool) -> None:
    release = run(wire(keys))
    assert weights(release) == pytest.approx(dict.fromkeys(NAMES, 1 / 3))
    assert left_out(release) == set()
    assert [owner.guarantee.budget.epsilon for owner in release.owners] == [1.0] * 3
    components = release.arrays["components"]
    projector = np.diag([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(components.T @ components, projector, atol=1e-12)
    np.testing.assert_allclose(release.arrays["explained_variance"], [0.48, 0.32])
    np.testing.assert_allclose(release.arrays["agreement"], [1.0, 1.0])
    np.testing.assert_allclose(release.arrays["reliability"], [1.0, 1.0])
    compared = release.settings["federation"]["compared"]
    assert compared["east"] == pytest.approx({"distance": 0.0, "variance": 1.0}, abs=1e-7)
    # 0.8 of the variance lies inside
    np.testing.assert_allclose(release.arrays["explained_variance_ratio"].sum(), 0.8)
    np.testing.assert_allclose(np.abs(components @ release.arrays["mean"]), [1.0, 1.0])


def test_the_release_is_saved_and_verified(tmp_path: Path) -> None:
    release = run(wire())
    loaded = Release.load(release.save(tmp_path / "release"))
    assert [owner.name for owner in loaded.owners] == list(NAMES)
    assert loaded.transform(np.zeros((2, 6))).shape == (2, K)
    with pytest.raises(InvalidParameterError, match="centre inside the components only"):
        loaded.inverse_transform(np.zeros((2, K)))


def test_variances_are_in_the_units_of_the_data() -> None:
    arrays = run(wire(), values="variances").arrays
    np.testing.assert_allclose(arrays["explained_variance"], [3.0, 2.0])
    np.testing.assert_allclose(arrays["explained_variance_ratio"], [0.48, 0.32])


def test_an_owner_without_a_centre_does_not_move_it() -> None:
    pairs = Stub(
        "west",
        spoil=lambda kind, a: (
            replace(a, centred=False, centre=np.zeros(2)) if kind == "values-question" else a
        ),
    )
    release = run(wire(west=pairs))
    components, mean = release.arrays["components"], release.arrays["mean"]
    np.testing.assert_allclose(np.abs(components @ mean), [1.0, 1.0])


@pytest.mark.parametrize("weighting", ["predicted", "printed", "equal"])
def test_an_owner_whose_search_missed_by_far_drowns_nobody(weighting: str) -> None:
    def lost(kind: str, answer: Any) -> Any:
        if kind != "values-question":
            return answer
        return replace(answer, noise_scale=1e60, matrix=-1e60 * np.eye(2), centre=np.full(2, 1e30))

    release = run(wire(west=Stub("west", spoil=lost)), values="variances", weights=weighting)
    np.testing.assert_allclose(release.arrays["explained_variance"], [3.0, 2.0])
    components, mean = release.arrays["components"], release.arrays["mean"]
    np.testing.assert_allclose(np.abs(components @ mean), [1.0, 1.0])


def test_a_covariance_has_the_values_and_spreads_the_rest() -> None:
    matrix = run(wire(), kind="covariance").arrays["covariance"]
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix), [*[5 / 0.8 * 0.2 / 4] * 4, 2.0, 3.0])


@pytest.mark.parametrize(
    ("kind", "change", "code"),
    [
        ("basis-question", lambda a: b"no message", Code.MALFORMED),
        ("basis-question", lambda a: b"\x80\x04K\x01.", Code.MALFORMED),
        ("basis-question", lambda a: encode(a)[:-8], Code.SHAPE),
        ("basis-question", lambda a: encode(a)[:-8] + NAN, Code.NOT_FINITE),
        ("basis-question", lambda a: encode(a)[:-8] + struct.pack("<d", 9.0), Code.OUT_OF_RANGE),
        (
            "basis-question",
            lambda a: encode(a).replace(ONE, TWO, 1),
            Code.NOT_ORTHONORMAL,
        ),
        ("basis-question", lambda a: replace(a, basis=np.eye(7)[:, :2]), Code.SHAPE),
        (
            "basis-question",
            lambda a: replace(a, basis=np.eye(6)[:, :3], strengths=np.ones(3)),
            Code.SHAPE,
        ),
        ("basis-question", lambda a: replace(a, owner="west"), Code.CONTRADICTION),
        ("basis-question", lambda a: replace(a, federation="other"), Code.CONTRADICTION),
        ("basis-question", lambda a: replace(a, guarantee={}), Code.OUT_OF_RANGE),
        (
            "basis-question",
            lambda a: replace(a, guarantee=Stub("x", epsilon=0.5).guarantee),
            Code.CONTRADICTION,
        ),
        (
            "basis-question",
            lambda a: replace(a, guarantee={**a.guarantee, "simulated": True}),
            Code.CONTRADICTION,
        ),
        (
            "basis-question",
            lambda a: Refusal(federation="test", owner="north", code=Code.BUDGET),
            Code.BUDGET,
        ),
        ("values-question", lambda a: replace(a, matrix=np.eye(1), centre=np.ones(1)), Code.SHAPE),
        ("values-question", lambda a: replace(a, owner="east"), Code.CONTRADICTION),
    ],
)
def test_an_unusable_answer_leaves_its_owner_out(kind: str, change: Any, code: Code) -> None:
    spoiled = Stub("north", spoil=lambda asked, a: change(a) if asked == kind else a)
    release = run(wire(north=spoiled))
    name = kind.removesuffix("-question")
    assert left_out(release) == {(name, "north", code)}
    if name == "basis":
        assert set(weights(release)) == {"east", "west"}
        assert spoiled.asked == ["invitation", "basis-question"]
    else:  # its basis was good
        values = {owner.name: owner.values_weight for owner in release.owners}
        assert values == pytest.approx({"east": 0.5, "north": 0.0, "west": 0.5})


@pytest.mark.parametrize("kind", ["basis-question", "values-question"])
@pytest.mark.parametrize("code", [Code.NOTHING_FOUND, Code.MALFORMED])
def test_who_was_asked_may_have_paid(kind: str, code: Code) -> None:
    """A search that found nothing is paid for, and that it did tells of the records."""
    refusal = encode(Refusal(federation="test", owner="north", code=code))
    said = b"" if code is Code.MALFORMED else refusal
    spoiled = Stub("north", epsilon=8.0, records=7, spoil=lambda k, a: said if k == kind else a)
    release = run(wire(north=spoiled))
    assert [owner.name for owner in release.owners] == list(NAMES)
    north = release.owners[1]
    assert north.guarantee.cost == Approx(8.0, 1e-6)
    assert north.guarantee.budget == release.guarantee.budget == Budget(epsilon=8.0, delta=1e-6)
    assert north.values_weight == 0
    assert (north.basis_weight == 0) == (kind == "basis-question")
    assert release.settings["n_rows"] == 200 + 7 * (kind == "values-question")
    assert "epsilon = 8, delta = 1e-06 at most by any owner" in release.guarantee.sentence()


def test_who_is_first_changes_no_bit() -> None:
    stubs = {name: Stub(name, angle=0.1 * i) for i, name in enumerate(NAMES)}
    forwards = run(wire(**stubs)).arrays
    transport = wire(**stubs)
    transport.owners = dict(reversed(transport.owners.items()))
    for name, array in run(transport).arrays.items():
        np.testing.assert_array_equal(array, forwards[name])


def test_owners_may_send_more_directions_than_components() -> None:
    """The second best direction of each is the same, and none sees it best."""
    wide = {
        name: Stub(
            name,
            spoil=lambda kind, a, i=i: (
                replace(a, basis=np.eye(6)[:, [i, 5]]) if kind == "basis-question" else a
            ),
        )
        for i, name in enumerate(NAMES)
    }
    release = run(wire(**wide), n_components=1, directions=2)
    assert left_out(release) == set()
    np.testing.assert_allclose(np.abs(release.arrays["components"]), np.eye(6)[5:6], atol=1e-12)


def test_a_silent_owner_is_asked_again_and_then_left_out() -> None:
    transport = wire()
    transport.silent.add("n-west")
    release = run(transport)
    assert ("join", "west", Code.NO_ANSWER) in left_out(release)
    transport = wire()
    west = transport.owners["n-west"]
    west.spoil = lambda kind, a: transport.silent.add("n-west") or a  # after it has joined
    release = run(transport)
    assert left_out(release) == {("basis", "west", Code.NO_ANSWER)}
    assert transport.sent.count("n-west") == 1 + 4  # joined; at 0, 0.3, 0.6 and 0.9 s


def test_a_lost_connection_ends_the_wait() -> None:
    transport = wire()
    clock = Clock()

    def lose(kind: str, answer: Any) -> Any:
        return encode(answer)

    transport.owners["n-west"].spoil = lose
    answer = transport.owners["n-west"].answer
    transport.owners["n-west"].answer = lambda q: (  # type: ignore[method-assign,assignment]
        Code.LOST if b"basis-question" in q else answer(q)
    )
    release = Coordinator(agreement(), Journal(), clock=clock, sleep=clock.sleep).run(transport)
    assert left_out(release) == {("basis", "west", Code.LOST)}
    assert clock.now < 1


def test_a_late_answer_is_left_out() -> None:
    transport = wire()
    held: list[Any] = []
    west = transport.owners["n-west"]
    answer = west.answer

    def late(question: bytes) -> Any:
        if b"basis-question" not in question:
            return answer(question)
        transport.silent.add("n-west")
        held.append(("n-west", question, answer(question)))
        return b"EIGENVEIL"  # never seen: taken out below

    west.answer = late  # type: ignore[method-assign]
    replies = transport.replies

    def later() -> Any:
        arrived = [each for each in replies() if each[2] != b"EIGENVEIL"]
        asked = [stub.asked[-1] for stub in transport.owners.values() if stub.asked]
        return arrived + (held if "values-question" in asked else [])

    transport.replies = later  # type: ignore[method-assign]
    release = run(transport)
    assert ("basis", "west", Code.LATE) in left_out(release)
    assert set(weights(release)) == {"east", "north"}


def test_too_few_owners_lose_the_quorum() -> None:
    transport = wire()
    transport.silent |= {"n-west", "n-east"}
    with pytest.raises(QuorumLostError, match=r"1 of 3 owners .* 'join', the quorum is 2"):
        run(transport)


def test_strangers_are_not_asked_for_anything() -> None:
    for keys in (True, False):
        transport = wire(keys)
        transport.owners["n-x"] = Stub("stranger")
        release = run(transport)
        assert left_out(release) == set()  # only of those who are expected
        assert set(weights(release)) == set(NAMES)
        assert transport.owners["n-x"].asked == ["invitation"]


def test_a_key_cannot_speak_for_another_owner() -> None:
    transport = wire()
    thief = Stub("west", angle=1.0)
    transport.owners["n-west"] = thief
    transport.nodes = lambda: {  # type: ignore[method-assign]
        "n-east": "east",
        "n-north": "north",
        "n-west": "south",
    }
    release = run(transport, owners=dict.fromkeys((*NAMES, "south"), Limits()))
    assert ("join", "south", Code.CONTRADICTION) in left_out(release)
    assert ("join", "west", Code.NO_ANSWER) in left_out(release)


def test_a_name_that_is_taken_cannot_be_spoilt_without_keys() -> None:
    transport = wire(keys=False)
    refusal = Refusal(federation="test", owner="west", code=Code.DATA)
    transport.owners["n-zz"] = Stub("west", spoil=lambda kind, a: refusal)
    transport.owners["n-zy"] = Stub("west", records=10**9)
    release = run(transport)
    assert set(weights(release)) == set(NAMES)
    assert weights(release) == pytest.approx(dict.fromkeys(NAMES, 1 / 3))


def test_an_owner_that_comes_back_under_another_node_is_asked_there() -> None:
    transport = wire(keys=False)
    transport.silent.add("n-west")  # it joined nowhere yet

    def appear(kind: str, answer: Any) -> Any:
        transport.owners["n-new"] = Stub("west")
        return answer

    transport.owners["n-east"].spoil = appear
    release = run(transport)
    assert set(weights(release)) == set(NAMES)


def test_an_answer_from_where_an_owner_was_before_is_not_needed() -> None:
    transport = wire(keys=False)
    replies, held = transport.replies, []

    def appear(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            transport.owners["n-new"] = Stub("west")
        return answer

    def late() -> Any:  # from the old node, once the new one has joined
        arrived = [*replies(), *held]
        moved = "n-new" in transport.owners
        held[:] = [each for each in arrived if moved and each[0] == "n-west" and each not in held]
        return [each for each in arrived if each not in held]

    transport.owners["n-west"].spoil = appear
    transport.replies = late  # type: ignore[method-assign]
    release = run(transport)
    assert set(weights(release)) == set(NAMES)
    assert release.settings["federation"]["left_out"] == []


@pytest.mark.parametrize("crash", ["basis-question", "values-question"])
@pytest.mark.parametrize("keys", [True, False])
def test_a_coordinator_that_crashed_goes_on(tmp_path: Path, crash: str, keys: bool) -> None:
    path = tmp_path / "journal"
    transport = wire(keys, east=Stub("east", angle=0.1))
    questions: list[tuple[str, bytes]] = []
    send = transport.send

    def noting(asked: Any, seconds: float) -> None:
        questions.extend(asked.items())
        send(asked, seconds)

    transport.send = noting  # type: ignore[method-assign]

    def fall(kind: str, answer: Any) -> Any:
        if kind == crash:
            raise KeyboardInterrupt
        return answer

    transport.owners["n-west"].spoil = fall
    with Journal(path) as journal, pytest.raises(KeyboardInterrupt):
        run(transport, journal)
    before = dict(questions)
    transport.owners["n-west"].spoil = lambda kind, answer: answer
    transport.queue.clear()
    with Journal(path) as journal:
        release = run(transport, journal)
        events = journal.events
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()
    again = {node: q for node, q in questions if crash.encode() in q}
    assert again["n-west"] == before["n-west"]  # the same bytes
    heard = [(e.round, e.owner) for e in events if e.happening is Happening.ANSWERED]
    assert len(heard) == len(set(heard)) == 6
    uncut = run(wire(keys, east=Stub("east", angle=0.1)))
    for name, array in uncut.arrays.items():
        np.testing.assert_array_equal(release.arrays[name], array)


def test_who_was_away_may_come_back_after_a_restart(tmp_path: Path) -> None:
    transport = wire()
    transport.silent |= {"n-west", "n-east"}
    with Journal(tmp_path / "journal") as journal, pytest.raises(QuorumLostError):
        run(transport, journal)
    transport.silent.clear()
    with Journal(tmp_path / "journal") as journal:
        assert set(weights(run(transport, journal))) == set(NAMES)


def test_a_journal_belongs_to_its_agreement(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run(wire(), journal)
        with pytest.raises(StateError, match="another agreement"):
            run(wire(), journal, quorum=3)
        run(wire(), journal, answer_seconds=5.0)  # patience may change


def test_an_owner_that_lies_about_its_records_gains_little() -> None:
    honest = run(wire())
    liar = Stub("west", records=10**12, epsilon=50.0, angle=1.2)
    release = run(wire(west=liar))
    assert weights(release)["west"] == pytest.approx(0.5)
    assert release.settings["federation"]["cut"] == ["west"]
    assert honest.settings["federation"]["cut"] == []
    agreed = dict.fromkeys(NAMES, known(100))
    modest = Stub("west", records=10**12, angle=1.2)
    vouched = run(wire(west=modest), owners=agreed)
    assert weights(vouched) == pytest.approx(dict.fromkeys(NAMES, 1 / 3))
    told = vouched.settings["federation"]["compared"]
    assert told["west"]["distance"] > 2 * told["east"]["distance"]
    trusting = run(wire(west=liar), most_weight=1.0)
    assert weights(trusting)["west"] > 0.99


@pytest.mark.parametrize(
    "changes", [{"epsilon": 1.1}, {"delta": 1e-5}, {"mechanism": "analyze-gauss"}, {}], ids=str
)
def test_who_claims_another_budget_or_mechanism_does_not_take_part(changes: Any) -> None:
    """Its weight, or the statement of all, would follow from its word alone; it may mend that."""
    said: list[str] = []

    def at_first(kind: str, answer: Any) -> Any:
        said.append(kind)
        return replace(answer, **changes) if len(said) < 3 and kind == "invitation" else answer

    transport = wire(west=Stub("west", spoil=at_first))
    transport.silent.add("n-east")  # keeps the round open
    clock, told = Clock(), []
    agreed = agreement(owners=dict.fromkeys(NAMES, known(100)))
    journal = Journal()
    Coordinator(agreed, journal, clock=clock, sleep=clock.sleep, tell=told.append).run(transport)
    refused = [e.code for e in told if e.happening is Happening.LEFT_OUT and e.owner == "west"]
    assert refused == ([Code.LIMITS] if changes else [])
    assert [e.owner for e in told if e.happening is Happening.JOINED] in (
        ["north", "west"],
        ["west", "north"],
    )


def test_an_invitation_that_was_withdrawn_is_sent_again(tmp_path: Path) -> None:
    """It was open when the round of others ended, and so would be for long."""

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(north=Stub("north", spoil=interrupt)), journal, again_seconds=10.0)
    with Journal(tmp_path / "journal") as journal:
        question = journal.events[-1].data
        for owner in ("east", "west"):
            answer = Stub(owner).answer(question)
            done = Event(happening=Happening.ANSWERED, round="basis", owner=owner, data=answer)
            journal.note(done)

    class Slow(Wire):
        """East is still at work on its invitation when the first round it is in ends."""

        def send(self, questions: Any, seconds: float) -> None:
            held = {n for n, q in questions.items() if n == "n-east" and b'"invitation"' in q}
            self.silent = held if not self.withdrawn else set()
            super().send(questions, seconds)

    transport = Slow(wire().owners)
    with Journal(tmp_path / "journal") as journal:
        release = run(transport, journal, again_seconds=10.0)
    assert left_out(release) == set()


def test_weights_follow_what_was_declared() -> None:
    large = Stub("west", records=10_000)
    limits = dict.fromkeys(NAMES, known(10_000))
    assert weights(run(wire(west=large), owners=limits))["west"] > 0.9
    assert weights(run(wire(west=large), owners=limits, weights="printed"))["west"] > 0.9
    assert weights(run(wire(west=large), weights="equal"))["west"] == pytest.approx(1 / 3)


def test_the_better_basis_counts_more() -> None:
    limits = dict.fromkeys(NAMES, known(10**6))
    good = Stub("west", records=10**6)
    stubs = {"east": Stub("east", angle=1.0), "north": Stub("north", angle=1.0), "west": good}
    components = run(wire(**stubs), owners=limits).arrays["components"]
    projector = components.T @ components
    assert np.linalg.norm(projector - np.diag([1, 1, 0, 0, 0, 0])) < 0.01
    assert math.isclose(np.linalg.norm(rotated(1.0)[:, 0]), 1.0)


@pytest.mark.parametrize(
    "declared", [{"epsilon": 1e-13, "delta": 1e-100}, {"epsilon": 1e-90}, {"delta": 1e-99}]
)
@pytest.mark.parametrize("rule", ["predicted", "printed"])
def test_no_declaration_stops_the_others(declared: dict[str, float], rule: str) -> None:
    hostile = Stub("west", spoil=lambda kind, a: replace(a, **declared) if DECLARES(kind) else a)
    release = run(wire(west=hostile), weights=rule)
    assert {"east", "north"} <= set(weights(release))


def test_a_cost_that_is_nested_is_refused() -> None:
    """It would stop the release, after everybody has paid."""
    cost: dict[str, Any] = {"kind": "gaussian", "mu": 0.01}
    for _ in range(300):
        cost = {"kind": "composed", "parts": [cost]}
    nested = Stub(
        "west",
        spoil=lambda kind, a: (
            a if DECLARES(kind) else replace(a, guarantee={**a.guarantee, "cost": cost})
        ),
    )
    release = run(wire(west=nested))
    assert left_out(release) == {("basis", "west", Code.OUT_OF_RANGE)}


@pytest.mark.parametrize(
    "matrix",
    [
        -1e100 * np.eye(2),
        np.array([[0.0, 1e100], [1e100, 0.0]]),
        1e3 * np.eye(2),
        np.diag([2.0, -0.9]),
    ],
)
def test_shares_that_cannot_be_any_are_refused(matrix: np.ndarray) -> None:
    """Of 100,000 records the noise is far below these."""
    hostile = Stub(
        "west",
        records=100_000,
        spoil=lambda kind, a: replace(a, matrix=matrix) if kind == "values-question" else a,
    )
    release = run(wire(west=hostile))
    assert left_out(release) == {("values", "west", Code.OUT_OF_RANGE)}


def test_variances_of_another_size_count_for_nothing() -> None:
    hostile = Stub(
        "west",
        spoil=lambda kind, a: (
            replace(a, matrix=1e100 * np.eye(2)) if kind == "values-question" else a
        ),
    )
    release = run(wire(west=hostile), values="variances")
    np.testing.assert_allclose(release.arrays["explained_variance"], [3.0, 2.0])
    assert {owner.name: owner.values_weight for owner in release.owners}["west"] == 0
    assert release.settings["federation"]["compared"]["west"]["variance"] > 1e90


@pytest.mark.parametrize("unit", ["shares", "variances"])
def test_a_tiny_answer_of_a_liar_does_not_leave_it_alone(unit: str) -> None:
    """It would be the median, if votes had the weights that it declares."""
    tiny = {"matrix": 1e-6 * np.eye(2), "noise_scale": 1e-12, "centred": False}
    liar = Stub(
        "west",
        records=10**12,
        values=tiny,
    )
    release = run(wire(west=liar), values=unit)
    values = {owner.name: owner.values_weight for owner in release.owners}
    assert values["west"] <= 0.5
    assert min(values.values()) >= 0.2


def test_of_two_nobody_can_tell_who_is_wrong() -> None:
    liar = Stub("west", values={"noise_scale": 1e-12})
    limits = dict.fromkeys(("east", "west"), known(100))
    transport = wire(west=liar)
    del transport.owners["n-north"]
    release = run(transport, owners=limits)
    assert [owner.values_weight for owner in release.owners] == pytest.approx([0.5, 0.5])


def test_a_centre_from_nowhere_moves_it_nowhere() -> None:
    hostile = Stub(
        "west",
        spoil=lambda kind, a: (
            replace(a, centre=np.full(2, 1e100)) if kind == "values-question" else a
        ),
    )
    release = run(wire(west=hostile))
    components, mean = release.arrays["components"], release.arrays["mean"]
    np.testing.assert_allclose(np.abs(components @ mean), [1.0, 1.0])


def test_a_busy_owner_is_asked_again() -> None:
    said: list[str] = []

    def busy_once(kind: str, answer: Any) -> Any:
        said.append(kind)
        if said == ["invitation", "basis-question"]:
            return Refusal(federation="test", owner="west", code=Code.BUSY)
        return answer

    release = run(wire(west=Stub("west", spoil=busy_once)))
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()


@pytest.mark.parametrize("code", [Code.BUDGET, Code.COLUMNS, Code.SETTINGS, Code.DATA])
def test_what_an_owner_lacked_can_be_mended(tmp_path: Path, code: Code) -> None:
    """While others are waited for, or before the next start."""
    refusal = Refusal(federation="test", owner="west", code=code)
    said: list[str] = []

    def at_first(kind: str, answer: Any) -> Any:
        said.append(kind)
        return refusal if len(said) == 1 else answer

    transport = wire(west=Stub("west", spoil=at_first))
    transport.silent.add("n-east")  # keeps the round open
    assert set(weights(run(transport))) == {"north", "west"}
    assert said[:2] == ["invitation", "invitation"]

    with Journal(tmp_path / "journal") as journal:
        transport = wire(west=Stub("west", spoil=lambda kind, a: refusal))
        with pytest.raises(QuorumLostError):
            run(transport, journal, quorum=3)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(), journal, quorum=3)
        assert set(weights(release)) == set(NAMES)
        assert left_out(release) == set()
        refused = [e for e in journal.events if e.happening is Happening.LEFT_OUT]
    assert len(refused) == 1  # said once, however often it was asked


@pytest.mark.parametrize("restart", [True, False])
def test_who_comes_back_after_a_round_is_closed_was_left_out_of_it(
    tmp_path: Path, restart: bool
) -> None:
    refusal = Refusal(federation="test", owner="west", code=Code.INTERNAL)
    broken = Stub("west", spoil=lambda kind, a: refusal if kind == "basis-question" else a)
    transport = wire(west=broken)

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "values-question":
            transport.owners["n-new"] = transport.owners.pop("n-west")
            transport.silent.add("n-north")  # keeps the round open
            if restart:
                raise KeyboardInterrupt
        return answer

    transport.owners["n-east"].spoil = interrupt
    with Journal(tmp_path / "journal") as journal:
        if restart:
            with pytest.raises(KeyboardInterrupt):
                run(transport, journal, quorum=1)
            transport = wire(west=broken)
        release = run(transport, journal, quorum=1)
    assert broken.asked.count("invitation") == 2
    assert ("basis", "west", Code.INTERNAL) in left_out(release)


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("kind", ["invitation", "basis-question", "values-question"])
def test_a_new_start_asks_everybody_whose_round_is_open(
    tmp_path: Path, kind: str, code: Code
) -> None:
    """Whatever was wrong may have been mended, and what was answered is sent again."""
    refusal = Refusal(federation="test", owner="west", code=code)
    spoiled = Stub("west", spoil=lambda k, a: refusal if k == kind else a)
    with Journal(tmp_path / "journal") as journal, pytest.raises(QuorumLostError):
        run(wire(west=spoiled), journal, quorum=3)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(), journal, quorum=3)
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()


def test_who_has_answered_everything_is_not_left_out(tmp_path: Path) -> None:
    """Asked to join again by a server that was started again, it says something else."""
    transport = wire()

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "values-question":
            raise KeyboardInterrupt
        return answer

    transport.owners["n-west"].spoil = interrupt
    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(transport, journal)
    with Journal(tmp_path / "journal") as journal:
        for node, question, reply in transport.queue:  # what east and north had sent by then
            owner = node.removeprefix("n-")
            happened = Event(happening=Happening.ANSWERED, round="values", owner=owner, data=reply)
            assert b"values-question" in question
            journal.note(happened)
        release = run(wire(east=Stub("east", records=5)), journal)
    assert left_out(release) == set()
    assert set(weights(release)) == set(NAMES)


def test_a_node_that_has_left_keeps_its_name() -> None:
    """Else its last words could be those of any owner."""

    class Leaving(Wire):
        away = False

        def nodes(self) -> Any:
            there = super().nodes()
            return {n: k for n, k in there.items() if not (self.away and n == "n-north")}

        def replies(self) -> Any:
            self.away = True  # before it is heard
            return super().replies()

    class Speaking(Stub):
        """With the key of north, as west."""

        def answer(self, question: bytes) -> bytes:
            self.name, kept = "west", self.name
            said = super().answer(question)
            self.name = kept
            return said

    stubs = {"n-east": Stub("east"), "n-north": Speaking("north")}
    release = run(Leaving(stubs), owners=dict.fromkeys(NAMES, Limits()), quorum=1)
    assert left_out(release) == {
        ("join", "north", Code.CONTRADICTION),
        ("join", "west", Code.NO_ANSWER),
    }
    assert set(weights(release)) == {"east"}


def test_why_an_owner_that_had_joined_did_not_answer(tmp_path: Path) -> None:
    """It refuses to join again after a restart: that is no silence."""

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(west=Stub("west", spoil=interrupt)), journal)
    refusal = Refusal(federation="test", owner="west", code=Code.COLUMNS)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(west=Stub("west", spoil=lambda kind, a: refusal)), journal)
    assert left_out(release) == {("basis", "west", Code.COLUMNS)}


def test_an_answer_belongs_to_its_question() -> None:
    """One that comes when another question to its node is open is not taken for that one's."""
    transport = wire(keys=False)
    replies = transport.replies

    def mixed() -> Any:
        arrived = list(replies())
        stray = [(n, b"another", r) for n, _, r in arrived]
        return [*stray, *arrived, *arrived]

    transport.replies = mixed  # type: ignore[method-assign]
    release = run(transport)
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()
    assert transport.withdrawn == 3


def test_a_release_that_was_saved_is_not_saved_again(tmp_path: Path) -> None:
    """The process was stopped between the release and the note of it."""
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal)
        assert not coordinator.complete
        coordinator.run(wire()).save(tmp_path / "release")
    before = Release.fingerprint(tmp_path / "release")
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal)
        assert coordinator.complete
        release = coordinator.run(wire())
        coordinator.save(release, tmp_path / "release")
        assert journal.events[-1].data.decode() == before
        changed = replace(release, arrays={**release.arrays, "mean": np.ones(6)})
        with pytest.raises(InvalidParameterError, match="exists already"):
            coordinator.save(changed, tmp_path / "release")


def test_who_comes_back_as_somebody_else_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def fall(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(north=Stub("north", spoil=fall)), journal)
    clock = Clock()
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal, clock=clock, sleep=clock.sleep)
        release = coordinator.run(wire(west=Stub("west", records=5)))
    assert left_out(release) == {("basis", "west", Code.CONTRADICTION)}
    assert clock.now < 1


def test_events_are_told_as_they_happen() -> None:
    told: list[Event] = []
    clock = Clock()
    coordinator = Coordinator(
        agreement(), Journal(), clock=clock, sleep=clock.sleep, tell=told.append
    )
    coordinator.run(wire())
    assert [event.happening for event in told].count(Happening.CLOSED) == 3


def test_journals_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no journal at"):
        Journal.read(tmp_path / "journal")
    (tmp_path / "journal").touch()  # a server is about to begin
    assert Journal.read(tmp_path / "journal") == []
    (tmp_path / "journal").write_bytes(b"something else, at some length " * 50)
    with pytest.raises(StateError, match="damaged"):
        Journal.read(tmp_path / "journal")
    with pytest.raises(StateError, match="use a new folder"):
        Journal(tmp_path / "journal")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"federation": "a b"}, "federation must be a name"),
        ({"owners": {"a b": Limits()}}, "owner must be a name"),
        ({"n_components": 7}, "between 1 and the number of columns"),
        ({"columns": ("a", "b")}, "one name for each column"),
        ({"scale": (1.0,) * 5}, "one positive scale"),
        ({"scale": (0.0,) * 6}, "one positive scale"),
        ({"share": 1.0}, "share must lie between"),
        ({"directions": 1}, "directions must lie between"),
        ({"directions": 7}, "directions must lie between"),
        ({"quorum": 4}, "quorum must lie between"),
        ({"quorum": 0}, "quorum must lie between"),
        ({"weights": "best"}, "weights must be"),
        ({"most_weight": 1.5}, "most_weight must lie"),
        ({"answer_seconds": 0}, "seconds must be positive"),
        ({"kind": "svd"}, "kind must be"),
        ({"values": "metres"}, "values must be"),
        ({"kind": "covariance", "values": "shares"}, "needs values='variances'"),
    ],
)
def test_impossible_agreements_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        agreement(**changes)
    with pytest.raises(InvalidParameterError):
        Limits(records=0)
    with pytest.raises(InvalidParameterError):
        Limits(epsilon=-1.0)
    with pytest.raises(InvalidParameterError):
        Limits(delta=0.0)
