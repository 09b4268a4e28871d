"""Warnings about released components: rare on healthy tables, and in the words of each face."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil import PrivatePCA
from eigenveil.exceptions import ComponentsWarning
from tests.cli.conftest import invoke

pytestmark = pytest.mark.filterwarnings("default::eigenveil.exceptions.ComponentsWarning")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
NAMES = ["age", "income", "visits", "score"]
RNG = np.random.default_rng(0)
HEALTHY = RNG.standard_normal((5000, 4)) @ np.array(
    [[2.0, 1.0, 0.0, 1.0], [0.0, 1.5, 0.5, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
)
UNITS = HEALTHY * [1.0, 1000.0, 1.0, 1.0]


def warned(rows, k=2, seed=0, **options):
    """Return the messages of the warnings of one fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PrivatePCA(k, **(BUDGET | options), random_state=seed).fit(rows)
    return [each.message for each in caught if isinstance(each.message, ComponentsWarning)]


def table(rows):
    return pd.DataFrame(rows, columns=NAMES[: rows.shape[1]])


@pytest.mark.parametrize("row_norm", [None, "private"])
def test_a_named_column_with_most_of_the_variance_is_named(row_norm):
    (message,) = warned(table(UNITS), row_norm=row_norm)
    assert str(message).startswith("the column 'income' alone holds ")
    assert "scale='private'" in str(message)
    assert "scale='same' if all columns share one unit" in str(message)
    assert "--scale private" in message.said("shell")
    assert "--scale same" in message.said("shell")


@pytest.mark.parametrize("scale", ["same", "private", (1.0, 10.0, 1.0, 1.0)])
def test_scales_that_are_said_are_not_doubted(scale):
    assert not warned(table(UNITS), scale=scale)


def test_columns_without_names_may_share_a_unit():
    assert not warned(UNITS)


@pytest.mark.parametrize(
    "rows",
    [HEALTHY[:, :2], HEALTHY[:, :2] * [1.0, 3.0], HEALTHY * [1, 2, 1, 1]],
    ids=["two", "two of unlike variance", "four"],
)
def test_columns_of_unlike_variance_may_share_a_unit(rows):
    """A column has at least ten times the variance of an average one before it is named."""
    assert not warned(table(rows))


def test_a_release_of_noise_is_called_that():
    noise = np.random.default_rng(1).standard_normal((300, 6))
    (message,) = warned(noise, epsilon=0.1)
    assert str(message) == (
        "no component stands out from the noise, so do not interpret any: give more rows or a "
        "larger budget"
    )


def test_nothing_is_said_where_the_noise_is_not_known():
    rows, rich = np.vstack([HEALTHY] * 6), {"epsilon": 50.0, "mechanism": "deflation"}
    assert not warned(rows, **rich)
    assert not PrivatePCA(2, **(BUDGET | rich)).fit(rows).distinguishable_.any()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_digits_are_healthy_but_for_what_is_mixed(epsilon):
    """Twenty releases each, of named pixels; the first two variances are .149 and .136."""
    digits = load_digits()
    frame = pd.DataFrame(digits.data, columns=digits.feature_names)
    told = [str(m) for seed in range(20) for m in warned(frame, 5, seed, epsilon=epsilon)]
    assert all(one.startswith("components 1 ") for one in told)
    assert len(told) < 20 or epsilon == 0.5


def test_a_first_component_that_is_mixed_is_told():
    rows = RNG.standard_normal((2000, 6)) * [3.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    (message,) = warned(rows, 2, epsilon=0.15)
    assert str(message).startswith("components 1 and 2 cannot be told apart; together ")
    assert "read them as a span" in str(message)


def test_standardised_columns_are_healthy():
    cancer = load_breast_cancer(as_frame=True).data
    standard = (cancer - cancer.mean()) / cancer.std()
    assert not any(warned(standard, 3, seed, epsilon=2.0) for seed in range(20))
    assert not any(warned(table(HEALTHY), 2, seed) for seed in range(20))


def test_the_shell_says_it_in_its_own_words(tmp_path):
    table(UNITS).to_csv(tmp_path / "t.csv", index=False)
    budget = ("--epsilon", 1, "--delta", 1e-6)
    words = ("--mechanism", "tangent", "-o", tmp_path / "release")
    ran = invoke("fit", tmp_path / "t.csv", "--k", 2, *budget, *words)
    assert ran.exit_code == 0, ran.output
    assert "beware: the column 'income' alone holds" in ran.stderr
    assert "pass --scale private" in ran.stderr
