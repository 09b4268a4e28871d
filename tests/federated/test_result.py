"""What a federation releases: weights, noise and settings that mean what they say."""

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from eigenveil import Release
from eigenveil.cli import main
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated import (
    Agreement,
    BasisAnswer,
    Limits,
    Owner,
    OwnerSettings,
    ProtocolError,
    promised,
    simulate,
)
from eigenveil.report import correlations
from eigenveil.report.page import render
from tests.federated.coordinating import run, weights, wire
from tests.federated.stubs import NAMES, Stub

FULL = Limits(records=10_000, epsilon=1.0, delta=1e-6, mechanism="spherical")


def page(release: Release) -> str:
    return render(release.guarantee, release.as_dict(), release.arrays, owners=release.owners)


def together(
    tables: dict[str, Any], epsilon: float = 1.0, scale: Any = None, **asked: Any
) -> Release:
    """A simulated federation of complete limits."""
    row_norm = asked.pop("row_norm", None)
    agreed = Agreement(
        federation="test",
        owners=dict.fromkeys(
            tables, Limits(records=50_000, epsilon=epsilon, delta=1e-6, mechanism="spherical")
        ),
        n_columns=next(iter(tables.values())).shape[1],
        scale=scale,
        simulated=True,
        **asked,
    )
    owners = {
        name: Owner(
            OwnerSettings(
                owner=name,
                federation="test",
                epsilon=epsilon,
                delta=1e-6,
                row_norm=row_norm,
                scale=scale,
                random_state=seed,
            ),
            rows,
        )
        for seed, (name, rows) in enumerate(tables.items())
    }
    return simulate(agreed, owners)


def test_clear_components_of_two_owners_stand_out() -> None:
    """Though two bases of three of five columns always share a direction."""
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((20_000, 5)) * [6, 5, 4, 0.1, 0.1] for name in "ab"}
    release = together(tables, epsilon=5.0, n_components=3)
    np.testing.assert_array_equal(release.arrays["distinguishable"], [1.0, 1.0, 1.0])
    assert "may not be clear" not in page(release)


def test_noise_of_two_owners_does_not_stand_out_and_the_page_says_why() -> None:
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((200, 4)) for name in "ab"}
    release = together(tables, n_components=3)
    assert not release.arrays["distinguishable"].any()
    reliable = (release.arrays["reliability"] > 0.5).any()
    assert ("a reliable component may not be clear" in page(release)) == reliable
    assert reliable  # else this seed tests nothing


def test_as_many_components_stand_out_as_directions_are_shared() -> None:
    """All owners see one of the two; the other is another one at each."""
    turned = {name: Stub(name, angle=np.pi / 2 * i / 2) for i, name in enumerate(NAMES)}
    arrays = run(wire(**turned)).arrays
    best = np.argmax(arrays["agreement"])
    np.testing.assert_array_equal(np.flatnonzero(arrays["distinguishable"]), [best])


def test_the_noise_of_a_covariance_is_that_of_scaled_columns() -> None:
    rng = np.random.default_rng(0)
    scale = (1000.0, 1.0, 1000.0, 1.0)
    tables = {name: rng.standard_normal((400, 4)) * scale * np.float64(0.05) for name in "ab"}
    release = together(tables, scale=scale, kind="covariance", n_components=4, row_norm=4.0)
    np.testing.assert_array_equal(release.arrays["scale"], scale)
    noise, covariance = release.settings["noise_scale"], release.arrays["covariance"].copy()
    # The noise of a length of 4 among 800 rows drowns a variance of 0.05^2.
    assert 0.1 < noise < 1.0
    np.fill_diagonal(covariance, np.square(scale) * noise * [1.9, 2.1, 2.1, 1.9])
    shown = correlations(release.settings, {**release.arrays, "covariance": covariance})
    assert np.isnan(shown.values.diagonal()).tolist() == [True, False, False, True]
    assert f"standard deviation {noise:.4g}, of scaled columns" in page(release)
    assert "noise on a value along a common direction" in page(release)
    assert "not stated" not in page(release)  # there is nothing beside all directions


def test_a_bound_binds_those_whom_nobody_vouches_for() -> None:
    large = Stub("west", records=10_000)
    some = {"east": FULL, "north": Limits(), "west": FULL}
    release = run(wire(west=large), owners=some)
    assert weights(release)["west"] > 0.9
    assert release.settings["federation"]["cut"] == []
    assert release.settings["federation"]["vouched"] == ["east", "west"]
    assert "none above 0.5 but of owners whose numbers all vouch for: east, west" in page(release)
    liar = Stub("north", records=10**12, epsilon=50.0)
    release = run(wire(west=large, north=liar), owners=some)
    assert weights(release)["north"] == pytest.approx(0.5)
    assert release.settings["federation"]["cut"] == ["north"]
    bound = run(wire(west=large), owners=some, most_weight=0.4)
    assert max(weights(bound).values()) == pytest.approx(0.4)
    assert bound.settings["federation"]["vouched"] == []


def test_what_each_owner_set_by_itself_is_not_told(tmp_path: Path) -> None:
    release = run(wire())
    assert release.settings["on_invalid"] is None
    assert release.settings["assume_centered"] is None
    loaded = Release.load(release.save(tmp_path / "release"))
    with pytest.raises(InvalidDataError, match="NaN or inf"):
        loaded.transform(np.full((1, 6), np.nan))
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "release")])
    assert shown.exit_code == 0
    assert "on_invalid" not in shown.output
    assert "(inside the common directions only)" in shown.output


def test_a_centre_that_no_owner_knows_is_none() -> None:
    paired = {name: Stub(name, values={"centred": False}) for name in NAMES}
    assert run(wire(**paired)).settings["centring"] == "paired"
    assert run(wire()).settings["centring"] == "inside"


def test_a_negative_variance_of_an_owner_is_called_noise() -> None:
    words = "A negative one is noise"
    assert words not in page(run(wire()))
    odd = Stub("west", values={"matrix": -np.diag([3.0, 2.0])})
    release = run(wire(west=odd), values="variances")
    assert release.settings["federation"]["compared"]["west"]["variance"] < 0
    assert words in page(release)


def test_a_covariance_restores_no_rows() -> None:
    release = run(wire(), kind="covariance")
    with pytest.raises(InvalidParameterError, match="has no components"):
        release.inverse_transform(np.zeros((2, 2)))
    assert "variance beside these has noise of its own, which is not stated" in page(release)


def test_a_claim_without_a_limit_is_an_owners_word_and_one_beyond_it_is_not_counted() -> None:
    limits = {"east": FULL, "north": Limits(), "west": Limits(records=50, epsilon=1.0, delta=1e-6)}
    stubs = {name: Stub(name, records=10**12) for name in NAMES}
    release = run(wire(**stubs), owners=limits)
    rows = {owner.name: owner.n_rows for owner in release.owners}
    assert rows == {"east": 10_000, "north": 10**12, "west": 50}
    assert release.settings["n_rows"] == sum(rows.values())
    told = {owner.name: owner.guarantee.bounds[-1] for owner in release.owners}
    assert told == {
        "east": "more than the agreed 10,000 records are claimed and not counted",
        "north": "by the owner's word alone: records, epsilon, delta",
        "west": "more than the agreed 50 records are claimed and not counted",
    }
    assert "in their statements" in "; ".join(release.guarantee.bounds)  # what `verify` prints
    for words in told.values():
        assert words in release.statement()
        assert escape(words) in page(release)


def test_an_owner_cannot_leave_no_room_for_what_is_said_of_it() -> None:
    def crowded(count: int) -> Any:
        def spoil(kind: str, answer: Any) -> Any:
            if kind != "basis-question":
                return answer
            words = [f"words {i}" for i in range(count)]
            return replace(answer, guarantee={**answer.guarantee, "bounds": words})

        return spoil

    spoiled = {"east": Stub("east", spoil=crowded(19)), "west": Stub("west", spoil=crowded(20))}
    assert weights(run(wire(**spoiled))).keys() == {"east", "north"}


def test_a_long_cost_is_refused_before_it_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def added_up(*_: Any) -> None:
        pytest.fail("added up")

    monkeypatch.setattr("eigenveil.federated.result.guarantee_from_dict", added_up)
    leaf = {"kind": "pure", "epsilon": 1e-4}
    for parts in ([leaf] * 65, [{"kind": "composed", "parts": [leaf]}], None):
        stub = Stub("east")
        promise = {**stub.guarantee, "cost": {"kind": "composed", "parts": parts}}
        answer = BasisAnswer(
            federation="test",
            owner="east",
            guarantee=promise,
            basis=np.eye(6)[:, :2].copy(),
            strengths=np.ones(2),
        )
        with pytest.raises(ProtocolError, match="out-of-range"):
            promised(answer)
