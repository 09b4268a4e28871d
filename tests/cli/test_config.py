"""Options from a TOML or a JSON file."""

import json
from datetime import date

import click
import pytest

from eigenveil import Release
from eigenveil.cli.releases import fit
from tests.cli.conftest import fails, invoke

WHOLE = """
columns = ["age", "gain"]
k = 1
epsilon = 1
delta = 1e-6
row-norm = 30.5
centring = "none"
mechanism = "analyze-gauss"

[bounds]
age = [0, 100]
gain = [0, 10]
"""


@pytest.fixture
def configured(tmp_path):
    def write(text):
        (tmp_path / "options.toml").write_text(text)
        return ["--config", tmp_path / "options.toml", "-o", tmp_path / "released"]

    return write


def settings(tmp_path):
    release = Release.load(tmp_path / "released")
    return release, release.settings


def test_a_file_may_hold_every_option(files, configured, tmp_path):
    result = invoke("fit", files.csv, *configured(WHOLE))
    assert result.exit_code == 0, result.output
    release, found = settings(tmp_path)
    assert found["feature_names"] == ["age", "gain"]
    assert found["row_norm"] == 30.5
    assert found["bounds"] == {"low": [0, 0], "high": [100, 10]}
    assert found["assume_centered"] is True
    assert release.mechanism == "analyze-gauss"


def test_the_command_line_wins(files, configured, tmp_path):
    words = ["--epsilon", 2, "--row-norm", 40, "--bounds", "0,200"]
    result = invoke("fit", files.csv, *words, *configured(WHOLE))
    assert result.exit_code == 0, result.output
    release, found = settings(tmp_path)
    assert release.guarantee.budget.as_dict() == {"epsilon": 2.0, "delta": 1e-6}
    assert found["row_norm"] == 40
    assert found["bounds"]["high"] == [200, 200]


@pytest.mark.parametrize(
    ("stored", "typed", "budget"),
    [
        ("epsilon = 1\ndelta = 1e-6", ["--rho", 0.5], {"rho": 0.5}),
        ("rho = 1", ["--epsilon", 1, "--delta", 1e-6], {"epsilon": 1.0, "delta": 1e-6}),
        ("epsilon = 1\ndelta = 1e-6", ["--delta", 1e-7], {"epsilon": 1.0, "delta": 1e-7}),
    ],
)
def test_a_typed_notion_replaces_the_stored_one(stored, typed, budget, files, configured, tmp_path):
    result = invoke("fit", files.npy, *typed, *configured(stored))
    assert result.exit_code == 0, result.output
    assert settings(tmp_path)[0].guarantee.budget.as_dict() == budget


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilom = 1", "unknown option 'epsilom': did you mean 'epsilon'"),
        ("config = 'x.toml'", "unknown option 'config'"),
        ("[fit]\nepsilon = 1", "unknown option 'fit'"),
        ("epsilon 1", "is not TOML"),
        ("epsilon = 'one'", "not a valid float"),
        ("k = true", "give an integer or 'private'"),
        ("columns = 3", "give names"),
        ("columns = []", "give names"),
        ("epsilon = 1\nbounds = [1]", "write it as LOW,HIGH"),
        ("epsilon = 1\n[bounds]\nage = 1", "write it as LOW,HIGH"),
        ("epsilon = 0", "epsilon must be positive"),
        ("epsilon = [1]", "holds no number for epsilon"),
        ("epsilon = true", "holds no number for epsilon"),
        ("epsilon = 2025-01-01", "holds no number for epsilon"),
        ("epsilon = {a = 1}", "holds no number for epsilon"),
        (f"epsilon = 1{400 * '0'}", "holds no number for epsilon"),
        (f"epsilon = 1{5000 * '0'}", "is not TOML"),
        (f"epsilon = {'[' * 5000}{']' * 5000}", "is not TOML"),
        ("ledger = 5", "holds no text for ledger"),
        ("output = [1]", "holds no text for output"),
        ("ledger = 'a\\u0000b'".replace("'", '"'), "give the path of a file"),
        ("mechanism = 1", "holds no text for mechanism"),
        ("adjacency = true", "holds no text for adjacency"),
        ("unit = 2025-01-01", "holds no text for unit"),
        ("variances = 2", "holds no true or false for variances"),
        ("k = 2025-01-01", "give an integer or 'private'"),
        (f"k = 1{400 * '0'}", "give an integer or 'private'"),
        ("row_norm = [1]", "give a number or 'private'"),
        ("scale = 2025-01-01", "write it as private"),
        ("bounds = [[[1]], 2]", "write it as LOW,HIGH"),
        ("columns = [['a']]", "give names"),
        ("columns = ['a', 'a']", "there twice"),
    ],
)
def test_mistakes_in_the_file(text, words, files, configured):
    assert words in fails(2, "fit", files.npy, *configured(text))


def test_counts_in_the_file_are_whole(configured):
    for text in ("rows = 1.5", "rows = true", "rows = [1]"):
        words = configured(f"{text}\ncolumns_count = 3\nepsilon = 1")[:2]
        assert "holds no whole number for rows" in fails(2, "plan", *words)


def test_options_of_another_command_are_unknown(files, configured):
    assert "unknown option 'k'" in fails(2, "covariance", files.npy, *configured("k = 2"))


def test_a_path_of_too_many_folders_is_refused(files, asked):
    assert "at most 200 folders" in fails(2, "fit", files.npy, *asked, "-o", "x/" * 2000 + "out")


def test_a_file_may_be_json(files, configured, tmp_path):
    options = {"columns": ["age", "gain"], "k": 1, "epsilon": 1, "delta": 1e-6}
    path = tmp_path / "options.json"
    path.write_text(json.dumps({**options, "bounds": {"age": [0, 100], "gain": [0, 10]}}))
    result = invoke("fit", files.csv, "--config", path, "-o", tmp_path / "released")
    assert result.exit_code == 0, result.output
    assert settings(tmp_path)[1]["bounds"] == {"low": [0, 0], "high": [100, 10]}


@pytest.mark.parametrize(
    "text", ["[]", '{"k": NaN}', '{"k": 1e999}', '{"title": "\\ud800"}', "{", "k = 1", ""]
)
def test_what_is_no_json_object_is_refused(files, tmp_path, text):
    path = tmp_path / "options.json"
    path.write_text(text)
    message = fails(2, "fit", files.csv, "--config", path, "-o", tmp_path / "released")
    assert "options.json is not a JSON object" in message


ENCODED = ("a=b", ["x", "y, z"]), ("day", date(2024, 1, 31)), ("ward", "private")


def parsed(*words):
    return fit.make_context("fit", ["t.csv", "-o", "out", *words]).params


def test_encodings_of_a_file_are_pairs(tmp_path):
    """So that no name or level is taken for a part of an option."""
    toml, plain = tmp_path / "options.toml", tmp_path / "options.json"
    toml.write_text(
        'encode = [["a=b", ["x", "y, z"]], ["day", 2024-01-31], ["ward", "private"]]\n'
        'bounds = {"a,b" = [0, 1]}\n'
    )
    pairs = [["a=b", ["x", "y, z"]], ["day", "2024-01-31"], ["ward", "private"]]
    plain.write_text(json.dumps({"encode": pairs, "bounds": {"a,b": [0, 1]}}))
    for path in (toml, plain):
        found = parsed("--config", str(path))
        assert found["encode"] == ENCODED
        assert found["bounds"] == {"a,b": (0.0, 1.0)}
    for wrong in ('["a"]', '["a", 20240131]', '["a", []]', '["", "private"]', '[1, "private"]'):
        plain.write_text(f'{{"encode": [{wrong}]}}')
        message = fails(2, "fit", "t.csv", "--config", plain, "-o", "out")
        assert "give names" in message or "write [" in message, wrong


def test_names_in_quotes_hold_commas_and_equals_signs():
    found = parsed("--bounds", '"a,b"=0:1,c=2:3, " d "=4:5,"e""f"=6:7,g=h=8:9')
    assert found["bounds"] == {
        "a,b": (0, 1),
        "c": (2, 3),
        " d ": (4, 5),
        'e"f': (6, 7),
        "g=h": (8, 9),
    }
    words = ('"a=b"=x,"y, z"', "day=2024-01-31", "ward", '"w,x"', 'v="2024-01-31"')
    found = parsed(*(word for each in words for word in ("--encode", each)))["encode"]
    assert found == (*ENCODED, ("w,x", "private"), ("v", ["2024-01-31"]))
    assert parsed("--censored", '"c=d"=half')["censored"] == (("c=d", "half"),)
    for wrong in ('"a,b"=0:1,"a,b"=0:1', '"a"=', '"a"'):
        with pytest.raises(click.UsageError):
            parsed("--bounds", wrong)
