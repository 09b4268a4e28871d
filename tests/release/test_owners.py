"""A release of several owners: one promise each, and one that follows from theirs."""

import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import eigenveil.release
from eigenveil import Release
from eigenveil.cli import main
from eigenveil.exceptions import InvalidParameterError, VerificationError
from eigenveil.privacy import Adjacency, Budget, Contribution, FederatedGuarantee, Kind, Pure, Unit
from eigenveil.release import content as schema
from eigenveil.release.export import export
from eigenveil.report import figures, write
from eigenveil.report.page import promises, render
from tests.report.test_page import Page

from .samples import HOSTILE, guarantee, settings

SCHEMA = json.loads(
    Path(eigenveil.release.__file__).with_name("release-1.schema.json").read_text("utf-8")
)
DIRECTIONS = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0]])


def owner(name, n_rows=100, weight=0.5, values_weight=None, **changes):
    return Contribution(
        name=name,
        n_rows=n_rows,
        guarantee=guarantee(**changes),
        basis_weight=weight,
        values_weight=weight if values_weight is None else values_weight,
    )


NORTH = owner("north", 1200, 0.7, 1.0, ledger="entry 1 of ledger north")
SOUTH = owner("south", 300, 0.3, 0.0, budget=Budget(epsilon=2.0, delta=1e-8))


def federated(owners=(NORTH, SOUTH), **changes):
    fields = {
        "kind": "pca",
        "mechanism": "federated",
        "guarantee": FederatedGuarantee.of(one.guarantee for one in owners),
        "owners": owners,
        "settings": settings(
            3, n_rows=sum(one.n_rows for one in owners), noise_scale=0.0, noise_floor=0.0
        ),
        "arrays": {
            "components": DIRECTIONS,
            "explained_variance": np.array([3.0, 1.0]),
            "explained_variance_ratio": np.array([0.6, 0.2]),
            "reliability": np.array([0.95, 0.9]),
            "distinguishable": np.ones(2),
            "mean": np.zeros(3),
            "scale": np.ones(3),
        },
    }
    return Release(**(fields | changes))


def page(release):
    return render(release.guarantee, release.as_dict(), release.arrays, owners=release.owners)


@pytest.fixture
def folder(tmp_path):
    return federated().save(tmp_path / "release")


def forge(folder, change, name="release.json"):
    """Change a file, and make the sums right again."""
    path = folder / name
    if name.endswith("json"):
        document = json.loads(path.read_text("utf-8"))
        change(document)
        path.write_text(json.dumps(document))
    else:
        path.write_text(change(path.read_text("utf-8")), "utf-8")
    sums = (
        f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file}\n"
        for file in ("release.json", "arrays.npz", "report.html")
    )
    (folder / "SHA256SUMS").write_text("".join(sums))


def test_save_load_verify_and_use(folder):
    release = federated()
    loaded = Release.load(folder)
    assert loaded.owners == release.owners
    assert loaded.guarantee == release.guarantee
    assert loaded.guarantee.budget == Budget(epsilon=2.0, delta=1e-6)
    jsonschema.validate(loaded.as_dict(), SCHEMA)
    rows = np.arange(6.0).reshape(2, 3)
    assert np.allclose(loaded.transform(rows), rows @ DIRECTIONS.T)
    document = json.loads((folder / "release.json").read_text())
    assert [one["guarantee"]["sentence"] for one in document["owners"]] == [
        NORTH.guarantee.sentence(),
        SOUTH.guarantee.sentence(),
    ]
    assert Release.verify(folder, fingerprint=Release.fingerprint(folder)).owners


def test_a_covariance_may_have_owners_too(tmp_path):
    arrays = {"covariance": np.eye(3), "location": np.zeros(3)}
    loaded = Release.load(federated(kind="covariance", arrays=arrays).save(tmp_path / "r.zip"))
    assert loaded.owners == (NORTH, SOUTH)
    text = page(loaded)
    assert "there is no one eigenvalue that noise alone would reach" in text
    assert "Map of released correlations" in text
    assert "told from noise" not in text


def test_a_release_of_one_table_has_no_owners():
    (alone,) = {
        tuple(replace(federated(), owners=(), guarantee=guarantee(ledger=words)).as_dict())
        for words in (None, "entry 1")
    }
    assert alone == (
        "schema",
        "library",
        "created",
        "kind",
        "mechanism",
        "guarantee",
        "settings",
        "arrays",
    )


def set_budget(document, **budget):
    document["guarantee"]["budget"] = budget
    document["guarantee"]["cost"] = {"kind": "approx", **budget}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["owners"].pop(),
        lambda d: d["owners"].clear(),
        lambda d: d.pop("owners"),
        lambda d: d["owners"].reverse() or d["owners"][0].update(name="north"),
        lambda d: d["owners"][0].update(basis_weight=0.6),
        lambda d: d["owners"][0].update(values_weight=0.9),
        lambda d: d["owners"][0].update(basis_weight=1.3) or d["owners"][1].update(basis_weight=-1),
        lambda d: d["owners"][0].update(n_rows=1201),
        lambda d: d["owners"][0].update(n_rows=0) or d["settings"].update(n_rows=300),
        lambda d: d["settings"].update(n_rows=None),
        lambda d: d["owners"][0].update(name=""),
        lambda d: d["owners"][0].update(name="north\nowners 9"),
        lambda d: d["owners"][0].update(also=1),
        lambda d: d["owners"][0]["guarantee"].update(ledger="entry 2"),
        lambda d: d["owners"][0]["guarantee"].update(ledger="x" * 501),
        lambda d: d["owners"][0]["guarantee"]["budget"].update(epsilon=0.1),
        lambda d: d["owners"][0]["guarantee"]["cost"].update(mu=0.21),
        lambda d: d["owners"][0]["guarantee"].update(adjacency="add-remove"),
        lambda d: d["owners"][0]["guarantee"].update(simulated=True),
        lambda d: d["owners"][0].update(guarantee={}),
        lambda d: d["guarantee"].update(ledger=None),
        lambda d: set_budget(d, epsilon=1.0, delta=1e-6),
        lambda d: set_budget(d, epsilon=3.0, delta=1e-6),
        lambda d: d["guarantee"].update(sentence=d["owners"][0]["guarantee"]["sentence"]),
    ],
)
def test_a_forged_statement_is_noticed(folder, change):
    forge(folder, change)
    with pytest.raises(VerificationError) as error:
        Release.verify(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new"), [("epsilon = 2, delta = 1e-08", "epsilon = 1, delta = 1e-08"), ("1,200", "12")]
)
def test_a_forged_page_is_noticed(folder, old, new):
    forge(folder, lambda text: text.replace(old, new), "report.html")
    with pytest.raises(VerificationError, match="does not say what release"):
        Release.verify(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["owners"][0].update(basis_weight=1.5),
        lambda d: d["owners"][0].update(basis_weight="0.7"),
        lambda d: d["owners"][1].update(name="a\x1b[2K"),
        lambda d: d["owners"][1]["guarantee"].update(bounds=["a\nb"]),
        lambda d: d["owners"][1]["guarantee"].pop("sentence"),
        lambda d: d["owners"][1].pop("guarantee"),
        lambda d: d["guarantee"].update(kind="best-case"),
        lambda d: d.update(owners={}),
        lambda d: d["owners"].append(None),
    ],
)
def test_any_validator_finds_the_same_faults(change):
    document = json.loads(json.dumps(federated().as_dict()))
    schema.check(document)
    change(document)
    for checks in (schema.check, lambda d: jsonschema.validate(d, SCHEMA)):
        with pytest.raises((VerificationError, jsonschema.ValidationError)):
            checks(document)


@pytest.mark.parametrize(
    ("owners", "match"),
    [
        ((NORTH, replace(SOUTH, name="north")), "two owners"),
        ((NORTH, replace(SOUTH, basis_weight=0.2)), "sum to 1"),
        ((NORTH, replace(SOUTH, values_weight=0.2)), "sum to 1"),
    ],
)
def test_owners_that_do_not_fit_together(owners, match):
    with pytest.raises(InvalidParameterError, match=match):
        federated(owners)


def test_the_guarantee_of_all_is_no_other_than_theirs_imply():
    with pytest.raises(InvalidParameterError, match="FederatedGuarantee"):
        federated(guarantee=guarantee())
    with pytest.raises(InvalidParameterError, match="FederatedGuarantee"):
        federated(guarantee=FederatedGuarantee.of([NORTH.guarantee]))
    with pytest.raises(InvalidParameterError):
        federated(owners=(), guarantee=FederatedGuarantee.of([NORTH.guarantee]), settings={})
    with pytest.raises(InvalidParameterError, match="n_rows"):
        federated(settings=settings(3, n_rows=1501))


def test_neighbours_whose_number_is_private_are_refused():
    other = owner("b", adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(InvalidParameterError, match="replace-one"):
        federated((owner("a"), other))


BAD_TEXT = ["", "a\nb", "\x1b[2K", "\u202eabc", "a\u2028", "\ud800", "x" * 501]


@pytest.mark.parametrize("text", BAD_TEXT, ids=lambda text: ascii(text[:9]))
@pytest.mark.parametrize("field", ["name", "bounds", "ledger", "assumption", "column"])
def test_no_text_of_an_owner_misleads(field, text):
    changes = {
        "name": {},
        "bounds": {"bounds": ("rows within 1", text)},
        "ledger": {"ledger": text},
        "assumption": {"kind": Kind.MODEL_BASED, "assumption": text},
        "column": {"protects": Unit("person", text)},
    }[field]
    with pytest.raises(InvalidParameterError, match="printable"):
        owner(text if field == "name" else "a", **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": " a"},
        {"name": "x" * 65},
        {"name": 3},
        {"n_rows": 0},
        {"n_rows": 1.5},
        {"n_rows": True},
        {"n_rows": 10**16},
        {"basis_weight": -0.1},
        {"values_weight": 1.1},
        {"values_weight": float("nan")},
        {"guarantee": guarantee(bounds=("a",) * 21)},
    ],
    ids=str,
)
def test_impossible_contributions(changes):
    with pytest.raises(InvalidParameterError):
        replace(NORTH, **changes)


def test_the_page_shows_every_owner():
    text = page(federated())
    Page(text)
    assert promises((NORTH, SOUTH)) in text
    seen = re.sub(r"<[^>]*>", "|", text)
    assert "|north||1,200||1||1e-06||0.7||1|" in seen
    assert "|south||300||2||1e-08||0.3||0|" in seen
    for one in (NORTH, SOUTH):
        for label, words in one.guarantee.statements():
            assert f'<th scope="row">{label}</th><td>{html.escape(words)}</td>' in text
    assert "rows of 2 owners." in text
    assert "standard deviation" not in text  # of no one noise


def test_notions_and_units_side_by_side():
    pure = {"budget": Budget(epsilon=1.0), "cost": Pure(1.0), "protects": Unit("person", "id")}
    owners = (
        owner("a", 10, 0.25, **pure),
        owner("b", 10, 0.25, budget=Budget(rho=0.1)),
        owner("c", 10, 0.5),
    )
    seen = re.sub(r"<[^>]*>", "|", page(federated(owners)))
    assert "|owner||persons or rows||epsilon||delta||rho||" in seen
    assert "|a||10||1||0||||0.25|" in seen
    assert "|b||10||||||0.1||0.25|" in seen
    assert "|c||10||1||1e-06||||0.5|" in seen


def test_hostile_words_of_owners_do_nothing(tmp_path):
    owners = tuple(
        owner(words, 10, 0.25, bounds=(words,), ledger=words, protects=Unit("person", words))
        for words in HOSTILE
    )
    text = page(federated(owners))
    Page(text)
    assert "<script" not in text
    assert "<img" not in text
    assert Release.load(federated(owners).save(tmp_path / "r")).owners == owners


def test_a_simulated_owner_is_marked(tmp_path):
    release = federated((owner("a"), owner("b", simulated=True)))
    text = page(release)
    assert "(simulation)</title>" in text
    assert text.count("Simulation, not private") == 2  # of all, and of b
    told = run("verify", release.save(tmp_path / "r"))
    assert told.count("; simulation") == 1


def test_many_owners(tmp_path):
    owners = tuple(owner(f"owner {i}", 10, 0.004, ledger=f"entry {i}") for i in range(250))
    folder = federated(owners).save(tmp_path / "r")
    text = (folder / "report.html").read_text("utf-8")
    assert len(text) < 600_000
    assert text.count("<details>") == 250
    told = run("inspect", folder)
    assert "owner 19 " in told
    assert "owner 20 " not in told
    assert "and 230 more" in told


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_the_command_line_names_the_owners(folder, command):
    told = run(command, folder)
    assert federated().guarantee.sentence() in " ".join(told.split())
    assert "owners       2\n" in told
    assert (
        "  north  1,200 rows; epsilon = 1, delta = 1e-06; weight 0.7 in directions, "
        "1 in values\n" in told
    )


def test_exports_and_pictures(folder, tmp_path):
    release = Release.load(folder)
    words = release.statement().splitlines()
    assert words == [
        release.guarantee.sentence(),
        f"Owner north: {NORTH.guarantee.sentence()}",
        f"Owner south: {SOUTH.guarantee.sentence()}",
    ]
    for name in ("x.csv", "x.parquet"):
        export(release, tmp_path / name)
    assert (tmp_path / "x.csv.statement.txt").read_text("utf-8") == release.statement() + "\n"
    stored = pq.read_schema(tmp_path / "x.parquet").metadata[b"eigenveil"]
    assert stored.decode() == release.statement()
    assert promises(release.owners) in write(release, tmp_path / "p.html").read_text("utf-8")
    drawn = figures(release, tmp_path / "figures", formats=("svg",))
    assert [path.stem for path in drawn] == ["loadings-1", "loadings-2"]
