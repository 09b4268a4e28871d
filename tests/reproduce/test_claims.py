"""Claims are accepted where runs agree and rejected where they do not."""

import math

import numpy as np
import pytest

from eigenveil.papers import (
    Claim,
    Compared,
    Figure,
    Method,
    Panel,
    Results,
    above,
    at_most,
    below,
    best_of,
    document,
    every,
    falls,
    gains,
    lines,
    near,
    often_below,
    rises,
    steady,
    total,
)

CURVES = {  # means along the axis
    "low": [1.0, 0.5, 0.25],
    "high": [2.0, 1.5, 1.0],
    "flat": [1.5, 1.5, 1.5],
    "odd": [0.9, 0.6, 0.24],
}


def results(claims=(), spread=0.01, compared=()):
    figure = Figure(
        name="toy:fig1",
        source="a toy",
        measure="error",
        methods=(
            Method("low", "ours"),
            Method("high", "printed"),
            Method("flat", "published"),
            Method("odd", "not private"),
        ),
        panels=(Panel("only", "n", (1, 2, 4)),),
        work=lambda at, seed, data: {},
        claims=claims,
        repeats={"small": 2, "paper": 2},
        compared=compared,
    )
    rng = np.random.default_rng(3)
    common = spread * rng.standard_normal(40)  # all methods see the same records
    values = {
        ("only", i): {
            name: curve[i] + common + 0.1 * spread * rng.standard_normal(40)
            for name, curve in CURVES.items()
        }
        for i in range(3)
    }
    return Results(figure, "small", values)


@pytest.mark.parametrize(
    ("check", "subject", "holds"),
    [
        (below("high"), "low", True),
        (below("low"), "high", False),
        (below("high", factor=0.6), "low", True),
        (below("high", factor=0.3), "low", False),
        (below("odd"), "low", False),  # one cell of three is against it
        (below("odd", where=lambda at: at["n"] == 2), "low", True),
        (above("low", "odd"), "high", True),
        (above("flat"), "high", False),
        (near("odd", 1.25), "low", True),
        (near("odd", 1.1), "low", False),
        (falls(), "low", True),
        (falls(least=5.0), "low", False),
        (falls(), "flat", False),
        (rises(), "low", False),
        (steady(1.05), "flat", True),
        (steady(1.05), "high", False),
        (at_most(2.1), "high", True),
        (at_most(1.9), "high", False),
        (best_of("low", "odd", within=3.0), "high", False),
        (best_of("high", "flat", within=1.5), "flat", True),
        (often_below("odd", share=1 / 3), "low", True),
        (often_below("odd", share=2 / 3), "low", False),
        (gains("flat", "only", along=1), "low", True),
        (gains("flat", "only", along=-1), "low", False),
        (every(falls(), below("high")), "low", True),
        (every(falls(), below("high")), "flat", False),
    ],
)
def test_verdicts(check, subject, holds):
    verdict = check(results(), subject)
    assert verdict.holds == holds, verdict.numbers
    assert any(letter.isdigit() for letter in verdict.numbers)


def test_a_difference_within_two_standard_errors_contradicts_nothing():
    """Means 0.2 % apart the wrong way in one cell, at a standard error of 0.3 % or more."""
    found = results()
    rng = np.random.default_rng(0)
    noise = 0.02 * rng.standard_normal(40)
    noise += 0.002 - noise.mean()
    cell = dict(found.values["only", 0]) | {"low": found.values["only", 0]["high"] + noise}
    close = Results(found.figure, "small", {**found.values, ("only", 0): cell})
    assert below("high")(close, "low").holds
    cell["low"] = cell["high"] + 0.5
    assert not below("high")(close, "low").holds


def test_a_method_that_never_answers_proves_nothing():
    found = results()
    silent = {key: runs | {"low": np.full(40, math.nan)} for key, runs in found.values.items()}
    nothing = Results(found.figure, "small", silent)
    for check in (below("high"), above("high"), near("high", 9), falls()):
        assert check(nothing, "low").holds is None
    claim = Claim("A falls", falls(), {"ours": "low"})
    found = document(results((claim,)))
    found["claims"][0]["verdicts"]["ours"]["holds"] = None
    assert "not judged" in "\n".join(lines(found))
    assert not [line for line in total([found]) if "claims" in line]


def test_summaries_count_claims_and_ratios():
    claims = (
        Claim("A beats B", below("flat"), {"as printed": "high", "ours": "low"}),
        Claim("A falls", falls(), {"as printed": "high"}),
    )
    found = document(results(claims, compared=(Compared("low", ("high", "flat"), "worst-case"),)))
    assert [one["ratio"] for one in found["ratios"]] == pytest.approx(
        [2 / 3, 1 / 3, 0.25], rel=0.02
    )
    assert [one["published"] for one in found["ratios"]] == ["flat", "flat", "high"]
    shown = "\n".join(lines(found))
    assert "as printed:    DOES NOT HOLD (high" in shown
    assert "ours:          holds (low" in shown
    assert "odd (not private)" in found["methods"]
    counted = total([found])
    assert counted[0] == "claims that hold as printed: 1 of 2 (50%)"
    assert counted[1] == "claims that hold ours: 1 of 1 (100%)"
    assert "geometric mean 0.38 in 3 cells" in counted[2]
