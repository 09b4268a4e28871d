"""What owners of secure sums agree on, and what is refused."""

import json
import math
import random
from dataclasses import replace

import pytest

from eigenveil.exceptions import InvalidBudgetError, InvalidDataError, InvalidParameterError
from eigenveil.federated.secure import SecureAgreement
from eigenveil.privacy import fits
from tests.federated.secure.parties import agreement, member, tables
from tests.fuzz.values import mutated_json

ROWS = tables()


def test_an_agreement_survives_the_round_trip():
    for changes in (
        {},
        {"kind": "covariance", "bounds": ((0.0,) * 5, (1.5,) * 5)},
        {"kind": "covariance"},
        {"variance": "within", "columns": tuple("abcde"), "scale": (1.0, 2.0, 3.0, 4.0, 5.0)},
    ):
        agreed = agreement(ROWS, **changes)
        found = SecureAgreement.decode(agreed.encode())
        assert found == agreed
        assert found.digest == agreed.digest
        assert found.fingerprint.replace(" ", "") == agreed.digest.hex()


def test_how_long_to_wait_may_change():
    agreed = agreement(ROWS)
    assert replace(agreed, join_seconds=1.0, answer_seconds=2.0).digest == agreed.digest


def test_the_order_of_owners_does_not_matter():
    backwards = dict(reversed(ROWS.items()))
    assert agreement(backwards).digest == agreement(ROWS).digest


def test_steps_cost_what_is_promised():
    for changes in ({}, {"kind": "covariance", "bounds": ((0.0,) * 5, (1.0,) * 5)}):
        agreed = agreement(ROWS, **changes)
        assert fits(agreed.cost, agreed.budget)
        assert agreed.alone.mu == pytest.approx(agreed.cost.mu * agreed.honest**0.5, rel=1e-4)
        assert sum(step.share for step in agreed.steps) == pytest.approx(1)
        assert agreed.promise.mus[-1] == agreed.cost.mu
        assert agreed.promise.mus[0] == agreed.alone.mu


def test_the_table_over_honest_owners():
    rows = tables(10, n=10)
    agreed = agreement(rows, epsilon=0.5, delta=1e-6, honest=7, quorum=7)
    table = dict(agreed.promise.table(1e-6))
    for h, epsilon in ((7, 0.5), (6, 0.54), (5, 0.60), (3, 0.79), (1, 1.43)):
        assert table[h] == pytest.approx(epsilon, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owners": {n: member(n, 5) for n in ("a", "b")}}, "three owners"),
        ({"owners": {n: member("a", 5) for n in ("a", "b", "c")}}, "one key"),
        ({"owners": {n: member(n, 0) for n in ("a", "b", "c")}}, "records of a"),
        ({"owners": {n: member(n, 5)._replace(key="x") for n in "abc"}}, "hexadecimal"),
        ({"owners": {n: member(n, 5) for n in ("a b", "c", "d")}}, "owner must be a name"),
        ({"honest": 1}, "honest must"),
        ({"honest": 4, "quorum": 3}, "honest must"),
        ({"quorum": 5}, "at most the number of owners"),
        ({"honest": 2, "quorum": 3}, "exceed the number of owners"),
        ({"n_components": 6}, "components"),
        ({"n_columns": 0}, "columns"),
        ({"kind": "covariance", "variance": "within"}, "about one centre"),
        ({"kind": "pca", "variance": "both"}, "variance must"),
        ({"columns": ("a",)}, "one name for each"),
        ({"scale": (0.0,) * 5}, "one positive scale"),
        ({"bounds": ((0.0,) * 5, (0.0,) * 5)}, "below its high"),
        ({"answer_seconds": 0}, "seconds"),
    ],
)
def test_what_nobody_can_agree_on_is_refused(changes, words):
    with pytest.raises(InvalidParameterError, match=words):
        agreement(ROWS, **changes)


def test_sums_that_masks_could_not_carry_are_refused():
    """They would come out modulo 2^64."""
    many = {name: member(name, 1 << 27) for name in ROWS}
    agreed = agreement(ROWS, owners=many)
    assert min(step.noise.grid for step in agreed.steps) + 62 >= math.log2(len(many) << 27)
    with pytest.raises(InvalidParameterError, match="exceed 64 bits"):
        agreement(ROWS, owners=many, epsilon=1e6)


def test_a_budget_that_rounding_would_exceed_is_refused():
    with pytest.raises(InvalidBudgetError):
        agreement(ROWS, epsilon=1e-12, delta=1e-12)


def _other_noise(document):
    document["steps"][0]["scale"] /= 2


def _other_grid(document):
    document["steps"][-1]["grid"] += 1


@pytest.mark.parametrize(
    "change",
    [
        _other_noise,
        _other_grid,
        lambda document: document.update(label="eigenveil-secure-sum/2"),
        lambda document: document.update(more=1),
        lambda document: document.pop("honest"),
        lambda document: document.update(honest=1),
    ],
)
def test_a_file_that_was_altered_is_refused(change):
    document = json.loads(agreement(ROWS).encode())
    change(document)
    text = json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"
    with pytest.raises(InvalidDataError, match="eigenveil federate agreement"):
        SecureAgreement.decode(text)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b"[" * 10_000])
def test_what_is_no_agreement_is_refused(data):
    with pytest.raises(InvalidDataError):
        SecureAgreement.decode(data)


def test_files_near_an_agreement_are_refused_or_are_one():
    rng = random.Random(5)
    rows = tables(n=4, d=2)
    stated = [
        json.loads(agreement(rows).encode()),
        json.loads(agreement(rows, kind="covariance", bounds=((0.0,) * 2, (1.0,) * 2)).encode()),
    ]
    for _ in range(300):
        changed = mutated_json(rng, rng.choice(stated), rng.choice((1, 1, 2)))
        text = json.dumps(changed, sort_keys=True, indent=1).encode() + b"\n"
        try:
            found = SecureAgreement.decode(text)
        except InvalidDataError:
            continue
        assert found.encode() == text
