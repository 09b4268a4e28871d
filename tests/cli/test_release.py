"""`fit` and `covariance`: what they release, say and charge, and in which order."""

import inspect
import json
import os
import shlex
import shutil

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release, open_rows
from tests.cli.conftest import NUMBERS, ROWS, but_for_noise, fails, invoke
from tests.planner.few import few_simulations


def takes(estimator, name):
    return name in inspect.signature(estimator).parameters


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", epsilon=2, delta=1e-6)


def test_fit_tells_everything_and_leaves_a_verified_release(files, asked, ledger, tmp_path):
    folder = tmp_path / "released"
    result = invoke("fit", files.csv, *asked, "--ledger", ledger.path, "-o", folder)
    assert result.exit_code == 0, result.output
    release = Release.verify(folder)
    assert release.kind == "pca"
    assert release.settings["feature_names"] == list(NUMBERS)
    assert release.settings["n_rows"] == ROWS
    clear = int(release.arrays["distinguishable"].sum())
    assert f"2 principal components of 3 columns, by {release.mechanism}; {clear} of them" in (
        result.stdout
    )
    assert release.guarantee.sentence() in " ".join(result.stdout.split())
    assert Release.fingerprint(folder) in result.stdout
    assert ledger.summary() in result.stdout
    assert result.stdout.endswith(f"next         eigenveil verify {folder}\n")
    assert result.stderr == ""  # no terminal, no progress
    assert len(ledger.entries) == 1


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Columns in units far apart; the variance of the last one is hidden by noise."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 4)) @ rng.standard_normal((4, 4)) * [1e-3, 1, 1e3, 0]
    rows[:2, 3] = 1.0
    path = tmp_path_factory.mktemp("mixed") / "mixed.csv"
    np.savetxt(path, rows, delimiter=",", header="low,middle,high,flag", comments="")
    return path


def test_columns_with_names_are_standardised(mixed, tmp_path):
    """What was estimated, and which columns it says little about, is named."""
    words = [mixed, "--k", 2, "--epsilon", 1, "--delta", 1e-6]
    result = invoke("fit", *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "columns, by correlation" in result.stdout
    assert (
        "target       components of standardised columns (correlations), of rows" in result.stdout
    )
    hidden = "noise hides the variance of flag: its loadings are rough"
    assert f"hidden       {hidden}\n" in result.stdout
    page = (tmp_path / "r" / "report.html").read_text()
    assert "They are components of standardised columns (correlations), of rows pulled" in page
    assert f"N{hidden[1:]}." in page
    assert "standard deviation</span>" in page
    assert "variance of standardised columns" in page
    assert "scaled to the same length" not in page
    same = invoke("fit", *words, "--scale", "same", "-o", tmp_path / "same").stdout
    assert "standardised" not in same


def test_too_few_rows_for_scales_name_the_way_out(mixed, tmp_path, ledger):
    """Nothing is charged, and nothing else is released instead."""
    few = tmp_path / "few.csv"
    few.write_text("\n".join(mixed.read_text().splitlines()[:60]) + "\n")
    words = ["fit", few, "--k", 2, "--epsilon", 1, "--delta", 1e-6, "-o", tmp_path / "r"]
    message = fails(2, *words, "--ledger", ledger.path)
    assert "about 303 rows would do, or epsilon = " in message
    assert "or state --scale same if all columns share one unit" in message
    assert ledger.entries == ()
    assert invoke(*words, "--scale", "same").exit_code == 0


def test_every_interface_states_the_same_guarantee(files, asked, tmp_path):
    folder = tmp_path / "released"
    stated = invoke("fit", files.csv, *asked, "-o", folder)
    sentence = Release.load(folder).guarantee.sentence()
    for result in (stated, invoke("verify", folder), invoke("inspect", folder)):
        assert sentence in " ".join(result.stdout.split())
    facts = json.loads(invoke("inspect", folder, "--json").stdout)
    assert facts["guarantee"]["sentence"] == sentence


def test_json_is_all_that_standard_output_holds(files, asked, ledger, tmp_path):
    folder = tmp_path / "released"
    result = invoke("fit", files.csv, *asked, "--ledger", ledger.path, "-o", folder, "--json")
    told = json.loads(result.stdout)
    assert told["fingerprint"] == Release.fingerprint(folder)
    assert {**told, **Release.load(folder).as_dict()} == told
    assert told["stand_out"] == int(Release.load(folder).arrays["distinguishable"].sum())
    assert told["balance"]["entries"] == 1
    assert 1 < told["balance"]["left"]["epsilon"] < 2
    assert told["next"] == f"eigenveil verify {folder}"


def test_what_is_left_is_what_another_release_may_ask_for(files, asked, ledger, tmp_path):
    options = [*asked, "--ledger", ledger.path, "--mechanism", "spherical", "--centring", "none"]
    invoke("fit", files.csv, *options, "-o", tmp_path / "first")
    left = json.loads(invoke("ledger", "show", ledger.path, "--json").stdout)["left"]["epsilon"]
    options[options.index("--epsilon") + 1] = left * 1.001
    fails(4, "fit", files.csv, *options, "-o", tmp_path / "second")
    options[options.index("--epsilon") + 1] = left
    assert invoke("fit", files.csv, *options, "-o", tmp_path / "second").exit_code == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "stdin"])
def test_inputs_of_every_kind_are_the_same_table(kind, files, asked, tmp_path, monkeypatch):
    """Seen by what reaches the estimator: the same rows under the same names."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    seen = {}
    honest = PrivatePCA.fit

    def fit(self, X, *arguments, **options):
        seen["rows"] = np.concatenate(list(X.chunks()))
        seen["names"] = X.schema.feature_names
        return honest(self, X, *arguments, **options)

    monkeypatch.setattr(PrivatePCA, "fit", fit)
    data = "-" if kind == "stdin" else getattr(files, kind)
    text = files.csv.read_bytes() if kind == "stdin" else None
    asked = asked[2:] if kind == "npy" else asked
    result = invoke("fit", data, *asked, "-o", tmp_path / "released", input=text)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(seen["rows"], files.rows)
    assert seen["names"] == (None if kind == "npy" else NUMBERS)


def test_options_reach_the_estimator(files, tmp_path, monkeypatch):
    seen = {}

    def build(self, n_components=None, **options):
        seen.update(options, n_components=n_components)
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivatePCA, "__init__", build)
    words = ["--k", "private", "--rho", 0.5, "--row-norm", "private", "--mechanism", "auto"]
    words += ["--adjacency", "add-remove", "--centring", "none", "--on-invalid", "zero"]
    words += ["--on-missing", "centre", "--columns", "hours,age", "--scale", "age=2,hours=4"]
    words += ["--bounds", "age=17:90,hours=-1:99"]
    result = invoke("fit", files.csv, *words, "-o", tmp_path / "released")
    assert result.exit_code == 130
    assert seen == {
        "n_components": "private",
        "rho": 0.5,
        "row_norm": "private",
        "mechanism": "auto",
        "adjacency": "add-remove",
        "centring": "none",
        "on_invalid": "zero",
        "on_missing": "centre",
        "scale": {"age": 2.0, "hours": 4.0},
        "bounds": ((-1.0, 17.0), (99.0, 90.0)),
        "variances": False,
        "show_scores": False,
        "ledger": None,
    }


def test_covariance_with_bounds(files, tmp_path):
    folder = tmp_path / "released"
    budget = ["--epsilon", 4, "--delta", 1e-6, "--columns", "age,gain"]
    bounds = ["--bounds", "age=0:100,gain=0:10"]
    result = invoke("covariance", files.csv, *budget, *bounds, "-o", folder)
    assert result.exit_code == 0, result.output
    release = Release.verify(folder)
    assert release.settings["bounds"] == {"low": [0.0, 0.0], "high": [100.0, 10.0]}
    assert "covariance matrix of 2 columns, by elliptical" in result.stdout
    assert "of its eigenvalues stand out" in result.stdout
    budget[1] = 9  # at 4 the distances of 400 rows are lost in noise now and then
    result = invoke("covariance", files.csv, *budget, "-o", tmp_path / "nothing stated")
    assert "covariance matrix of 2 columns, by elliptical" in result.stdout
    clipping = [*budget, "--mechanism", "gauss", "-o", tmp_path / "other"]
    message = fails(3, "covariance", files.csv, *clipping)
    assert "--bounds LOW,HIGH" in message
    assert "--row-norm R" in message
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(not takes(PrivatePCA, "on_missing"), reason="needs on_missing")
def test_missing_cells_at_the_centre(files, asked, tmp_path):
    lines = files.csv.read_text().splitlines()
    lines[5] = "," + lines[5].split(",", 1)[1]
    (tmp_path / "gaps.csv").write_text("\n".join(lines) + "\n")
    fails(3, "fit", tmp_path / "gaps.csv", *asked, "-o", tmp_path / "refused")
    kept = [*asked, "--on-missing", "centre", "-o", tmp_path / "released"]
    assert invoke("fit", tmp_path / "gaps.csv", *kept).exit_code == 0


@pytest.mark.skipif(not takes(PrivateCovariance, "scale"), reason="needs scale")
def test_covariance_of_scaled_columns(files, tmp_path):
    options = ["--columns", "age,gain", "--scale", "age=10,gain=1", "--row-norm", 8]
    options += ["--epsilon", 4, "--delta", 1e-6, "-o", tmp_path / "released"]
    result = invoke("covariance", files.csv, *options)
    assert result.exit_code == 0, result.output
    words = Release.load(tmp_path / "released").guarantee.sentence()
    assert "scales stated by the caller" in words


@pytest.mark.skipif(not takes(open_rows, "unit"), reason="needs unit")
def test_a_unit_of_many_rows(files, tmp_path):
    options = ["--columns", "age,gain", "--unit", "job", "--k", 1, "--rho", 2, "--scale", "same"]
    result = invoke("fit", files.csv, *options, "-o", tmp_path / "released")
    assert result.exit_code == 0, result.output
    assert "one row, whichever it is" not in result.stdout
    assert "secretive-job" not in result.output
    message = fails(3, "fit", files.csv, *options, "--unit", "jobs", "-o", tmp_path / "other")
    assert "did you mean 'job'" in message


@pytest.mark.skipif(
    "private" not in (PrivateCovariance.__doc__ or "").split("row_norm :")[-1][:200],
    reason="needs row_norm='private'",
)
def test_a_private_row_norm(files, tmp_path):
    options = ["--columns", "age,gain", "--row-norm", "private", "--epsilon", 8, "--delta", 1e-6]
    result = invoke("covariance", files.csv, *options, "-o", tmp_path / "released")
    assert result.exit_code == 0, result.output


def test_a_unit_needs_a_ledger_of_units(files, ledger, tmp_path):
    options = ["--columns", "age,gain", "--unit", "job", "--k", 1, "--epsilon", 1, "--delta", 1e-6]
    options += ["--scale", "same"]
    words = ["fit", files.csv, *options, "-o", tmp_path / "released", "--ledger"]
    message = fails(2, *words, ledger.path)
    assert "create one with eigenveil ledger init FILE --unit person --epsilon E" in message
    assert "Ledger.create" not in message
    assert ledger.entries == ()
    terms = ["--unit", "person", "--epsilon", 2, "--delta", 1e-6]
    made = invoke("ledger", "init", tmp_path / "persons.ledger", *terms)
    assert "protecting all rows of one id" in made.stdout
    assert invoke(*words, tmp_path / "persons.ledger").exit_code == 0
    del words[words.index("--unit") : words.index("--unit") + 2]
    words[words.index("-o") + 1] = tmp_path / "other"
    assert "give --unit COLUMN" in fails(2, *words, tmp_path / "persons.ledger")
    (entry,) = json.loads(invoke("ledger", "history", tmp_path / "persons.ledger", "--json").stdout)
    assert entry["unit"] == "person by job"


def test_a_release_signed_as_it_is_saved(files, asked, tmp_path):
    pytest.importorskip("cryptography")
    key, folder = tmp_path / "key.pem", tmp_path / "released"
    made = invoke("keygen", key)
    result = invoke("fit", files.csv, *asked, "--sign", key, "-o", folder)
    assert result.exit_code == 0, result.output
    following = shlex.split(result.stdout.splitlines()[-1])[1:]
    assert following == ["eigenveil", "verify", str(folder), "--key", f"{key}.pub"]
    checked = invoke(*following[1:])
    assert checked.exit_code == 0
    fingerprint = made.stdout.split()[-1]
    assert f"signed by {fingerprint}, the key you gave" in checked.stdout
    assert f"signature    by {fingerprint}" in result.stdout


def _unread(*arguments):
    raise AssertionError("a row was read")


class TestOrder:
    """Whatever can be refused is refused before the ledger is charged."""

    def refused(self, code, files, ledger, *options):
        fails(code, "fit", files.csv, *options, "--ledger", ledger.path)
        assert ledger.entries == ()

    def test_an_output_folder_that_exists(self, files, asked, ledger, tmp_path):
        self.refused(2, files, ledger, *asked, "-o", tmp_path)

    def test_an_output_folder_without_a_parent(self, files, asked, ledger, tmp_path):
        self.refused(2, files, ledger, *asked, "-o", tmp_path / "none" / "released")
        assert not (tmp_path / "none").exists()

    def test_an_output_folder_inside_a_file(self, files, asked, ledger):
        self.refused(2, files, ledger, *asked, "-o", files.csv / "released")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_an_output_folder_that_may_not_be_written(self, files, asked, ledger, tmp_path):
        (tmp_path / "locked").mkdir(mode=0o500)
        self.refused(2, files, ledger, *asked, "-o", tmp_path / "locked" / "released")

    def test_an_output_folder_is_tried_out(self, files, asked, ledger, tmp_path, monkeypatch):
        def refuse(*arguments, **options):
            raise PermissionError

        monkeypatch.setattr("eigenveil.storage.reservation.tempfile.TemporaryFile", refuse)
        self.refused(2, files, ledger, *asked, "-o", tmp_path / "released")

    def test_no_output_folder(self, files, asked, ledger):
        self.refused(2, files, ledger, *asked)

    def test_a_row_that_cannot_be_used(self, files, asked, ledger, tmp_path):
        lines = files.csv.read_text().splitlines()
        lines[200] = "x,x,x,x"
        (tmp_path / "text.csv").write_text("\n".join(lines))
        words = ["fit", tmp_path / "text.csv", *asked, "-o", tmp_path / "r"]
        fails(3, *words, "--ledger", ledger.path)
        assert ledger.entries == ()

    def test_a_failure_after_the_charge_says_so(self, files, asked, ledger, tmp_path, monkeypatch):
        from eigenveil.exceptions import InvalidParameterError

        def full(*arguments, **options):
            raise InvalidParameterError("cannot write released: choose a writable place")

        monkeypatch.setattr(Release, "save", full)
        words = ["fit", files.csv, *asked, "--ledger", ledger.path, "-o", tmp_path / "r"]
        message = fails(2, *words)
        assert "the ledger was charged" in message
        assert "spent epsilon = 1 of 2" in message
        charge, mark = ledger.entries
        assert mark.failed == charge.number

    @pytest.mark.parametrize(("fault", "code"), [(KeyboardInterrupt, 130), (ZeroDivisionError, 1)])
    def test_whatever_stops_it_after_the_charge(
        self, fault, code, files, asked, ledger, tmp_path, monkeypatch
    ):
        def stop(*arguments, **options):
            raise fault

        monkeypatch.setattr("eigenveil.cli.releasing.tell", stop)
        words = ["fit", files.csv, *asked, "--ledger", ledger.path, "-o", tmp_path / "r"]
        result = invoke(*words)
        assert result.exit_code == code
        assert but_for_noise(result.stderr).count("\n") == 1
        assert "the ledger was charged" in result.stderr

    def test_a_key_that_cannot_sign(self, files, asked, ledger, tmp_path):
        pytest.importorskip("cryptography")
        from eigenveil.release import generate_key

        generate_key(tmp_path / "locked.pem", password="x")
        (tmp_path / "broken.pem").write_text("nonsense")
        words = [*asked, "-o", tmp_path / "r", "--sign"]
        for name, code in {"locked.pem": 2, "broken.pem": 3, "locked.pem.pub": 3}.items():
            self.refused(code, files, ledger, *words, tmp_path / name)

    def test_an_exhausted_ledger(self, files, asked, ledger, tmp_path, monkeypatch):
        words = ["fit", files.csv, *asked, "--ledger", ledger.path, "-o"]
        words[words.index("--epsilon") + 1] = 1.9
        assert invoke(*words, tmp_path / "first").exit_code == 0
        with monkeypatch.context() as patched:
            # Lines are counted; the cells of a small file would be kept on the way.
            patched.setattr("eigenveil.rows.csv.CSVSource._is_small", False)
            patched.setattr("eigenveil.rows.csv.CSVSource.chunks", _unread)
            message = fails(4, *words, tmp_path / "second")
        assert "ask for less" in message
        assert len(ledger.entries) == 1
        assert not (tmp_path / "second").exists()


def test_a_tampered_release(files, asked, tmp_path):
    folder = tmp_path / "released"
    invoke("fit", files.csv, *asked, "-o", folder)
    shutil.copytree(folder, tmp_path / "altered")
    page = tmp_path / "altered" / "release.json"
    page.write_text(page.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5', 1))
    for command in ("verify", "inspect", "report"):
        fails(5, command, tmp_path / "altered")
        assert invoke(command, folder).exit_code == 0
    fails(3, "verify", tmp_path / "nothing-here")


def test_a_budget_that_hardly_promises_is_commented_on(files, tmp_path):
    """On standard error; what is asked for is done."""
    loose = ("--epsilon", 50, "--delta", 0.5)
    commands = {
        "fit": ("fit", files.npy, "--k", 1, *loose, "-o", tmp_path / "r"),
        "plan": ("plan", files.npy, "--k", 1, *loose),
        "init": ("ledger", "init", tmp_path / "l", *loose),
    }
    for arguments in commands.values():
        with few_simulations():
            result = invoke(*arguments)
        assert result.exit_code == 0, result.output
        assert "beware: delta = 0.5: with that probability nothing is promised" in result.stderr
        assert "beware: epsilon = 50: " in result.stderr
    with few_simulations():
        usual = invoke("plan", files.npy, "--k", 1, "--epsilon", 1, "--delta", 1e-6)
    assert "beware" not in usual.stderr


def test_a_release_says_what_it_is_for(files, asked, tmp_path):
    said = {"title": "Profiles", "purpose": "audit", "owner": "registry", "approver": "office"}
    words = [word for name, text in said.items() for word in (f"--{name}", text)]
    result = invoke("fit", files.csv, *asked, *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert Release.load(tmp_path / "r").settings["about"] == said
    assert "one line" in fails(2, "fit", files.csv, *asked, "--title", "a\nb", "-o", tmp_path / "s")
