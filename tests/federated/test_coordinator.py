"""The coordinator: who fails is named and left out, who restarts goes on."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError, QuorumLostError
from eigenveil.federated import Code, Coordinator, Happening, Journal, Limits, Refusal, encode
from eigenveil.privacy import Approx, Budget
from eigenveil.release import Release
from tests.federated.coordinating import DECLARES, known, left_out, run, weights, wire
from tests.federated.stubs import NAMES, Clock, K, Stub, agreement, rotated

ONE, TWO, NAN = (struct.pack("<d", number) for number in (1.0, 2.0, math.nan))


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
