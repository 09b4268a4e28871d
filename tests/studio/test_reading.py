"""The tab Read: a release is verified before anything of it is shown."""

import io
import json
import zipfile

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRegression, Release, open_rows
from eigenveil.exceptions import ColumnsLeftOutWarning
from eigenveil.release import generate_key
from eigenveil.report import captured_sentence
from tests.studio.conftest import NAMES, SECRET, Browser


def drop(browser, files):
    id = browser.tell("received").json()["id"]
    for name, content in files.items():
        answer = browser.drop(f"received/{id}/{name}", content)
        assert answer.status_code == 200, answer.text
    return browser.ask("release", name=f"received:{id}")


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_release_tells_its_promise_in_its_own_words(browser, folder):
    found = browser.ask("release", name="first").json()
    release = Release.load(folder / "first")
    assert found["promise"]["lead"] == release.guarantee.odds()
    told = [tuple(pair) for pair in found["promise"]["statements"]]
    assert told == list(release.guarantee.statements())
    assert found["fingerprint"] == Release.fingerprint(folder / "first")
    assert found["title"] == "Profiles"
    assert [check["good"] for check in found["checks"]] == [True, True, False]
    assert np.allclose(found["spectrum"]["values"], release.arrays["eigenvalues"])
    assert np.allclose(found["loadings"]["values"], release.arrays["components"])
    assert found["captured"] == captured_sentence(release.settings, release.arrays).replace(
        "+-", "±"
    )
    assert " components hold " in found["captured"]
    assert found["promise"]["simulated"]


def test_columns_left_out_are_named_at_the_top(browser, folder):
    assert browser.ask("release", name="first").json()["left_out"] == ""
    rows = np.random.default_rng(0).standard_normal((900, 3)) * [1.0, 50.0, 0.0]
    budget = {"epsilon": 50.0, "delta": 1e-6, "random_state": 0}
    with pytest.warns(ColumnsLeftOutWarning, match="x2"):
        fitted = PrivatePCA(1, **budget, mechanism="tangent", scale="private").fit(rows)
    fitted.release_.save(folder / "without")
    found = browser.ask("release", name="without").json()
    assert found["left_out"] == "x2 (no scale found)"
    assert "1 principal component of 2 of 3 columns, without x2" in found["headline"]


def test_standardised_columns_and_hidden_variances_are_told(browser, folder):
    assert not browser.ask("release", name="first").json()["standardised"]
    rows = np.random.default_rng(0).standard_normal((4000, 3)) * [1.0, 50.0, 0.0]
    rows[:2, 2] = 1.0
    budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    with pytest.warns(ColumnsLeftOutWarning, match="x2"):
        fitted = PrivatePCA(1, **budget, scale="private").fit(rows)
    fitted.release_.save(folder / "standardised")
    found = browser.ask("release", name="standardised").json()
    assert found["standardised"]
    assert found["hidden"] == "noise hides the variance of x2: its loadings are rough"
    assert found["spectrum"]["unit"] == "variance of standardised columns"
    assert not found["spectrum"]["unit_rows"]


def test_a_folder_and_a_zip_may_be_dropped(browser, folder, tmp_path):
    release = Release.load(folder / "first")
    whole = drop(browser, files_of(folder / "first")).json()
    assert whole["fingerprint"] == Release.fingerprint(folder / "first")
    release.save(tmp_path / "a.zip")
    assert drop(browser, {"release.zip": (tmp_path / "a.zip").read_bytes()}).status_code == 200


def test_an_altered_release_shows_nothing(browser, folder):
    files = files_of(folder / "first")
    files["release.json"] = files["release.json"].replace(b"Profiles", b"Profilez")
    answer = drop(browser, files)
    assert answer.status_code == 400
    assert "SHA256SUMS" in answer.json()["error"]
    assert "promise" not in answer.json()


def bomb():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("release.json", b"0" * 10_000_000)
    return data.getvalue()


def slipping():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in ("../release.json", "arrays.npz", "report.html", "SHA256SUMS"):
            archive.writestr(name, b"x")
    return data.getvalue()


@pytest.mark.parametrize(
    "content", [b"", b"no zip", bomb(), slipping()], ids=["empty", "text", "bomb", "slip"]
)
def test_bad_zips_are_refused_in_one_line(browser, folder, content):
    before = sorted(folder.parent.rglob("*"))
    answer = drop(browser, {"release.zip": content})
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
    assert sorted(folder.parent.rglob("*")) == before


def test_only_files_of_a_release_are_taken(browser):
    id = browser.tell("received").json()["id"]
    for name in ("evil.py", "..%2fevil.json", "release.json.txt"):
        assert browser.drop(f"received/{id}/{name}", b"x").status_code in (400, 404)
    assert browser.drop(f"received/{id}/release.json", b"x").status_code == 200
    assert browser.drop(f"received/{id}/release.json", b"y").status_code == 400  # there already
    assert browser.drop("received/0123/release.json", b"x").status_code == 400


def test_all_files_together_are_bounded(browser, monkeypatch):
    monkeypatch.setattr("eigenveil.studio.folder._LARGEST", 10)
    id = browser.tell("received").json()["id"]
    assert browser.drop(f"received/{id}/release.json", b"x" * 8).status_code == 200
    assert browser.drop(f"received/{id}/arrays.npz", b"x" * 8).status_code == 400
    assert (
        browser.drop(f"received/{id}/arrays.npz", b"x" * 2).status_code == 200
    )  # nothing was left


def test_what_was_dropped_goes_with_the_studio(studio):
    browser = Browser(studio)
    for _ in range(21):
        id = browser.tell("received").json()["id"]
    place = studio.received.place(id).parent
    assert len(list(place.iterdir())) == 20
    studio.received.remove()
    assert not place.exists()


def test_a_signature_is_checked_against_the_key_that_is_trusted(browser, folder):
    generate_key(folder / "mine.pem")
    generate_key(folder / "other.pem")
    Release.load(folder / "first").save(folder / "signed", key=folder / "mine.pem")
    alone = browser.ask("release", name="signed").json()["checks"][2]
    assert not alone["good"]
    trusted = browser.ask("release", name="signed", key="mine.pem.pub").json()["checks"][2]
    assert trusted == {**trusted, "good": True, "title": "Signed by the key you trust"}
    assert browser.ask("release", name="signed", key="other.pem.pub").status_code == 400
    fingerprint = Release.fingerprint(folder / "signed")
    assert browser.ask("release", name="signed", fingerprint=fingerprint).status_code == 200
    assert browser.ask("release", name="signed", fingerprint="0" * 64).status_code == 400


def test_every_kind_has_its_figure(browser, made, folder):
    rows = np.loadtxt(made / "people.csv", delimiter=",", skiprows=1, usecols=(2, 3, 4, 5))
    budget = {"epsilon": 8.0, "delta": 1e-5, "random_state": 0}
    covariance = PrivateCovariance(**budget, scale="same")
    covariance.fit(rows).release_.save(folder / "matrix")
    PrivateRegression(**budget).fit(rows[:, :3], rows[:, 3]).release_.save(folder / "line")
    matrix = browser.ask("release", name="matrix").json()
    assert len(matrix["correlations"]["values"]) == 4
    assert matrix["loadings"] is None
    line = browser.ask("release", name="line").json()
    (one,) = line["coefficients"]
    assert len(one["values"]) == len(one["low"]) == 3
    little = {"epsilon": 0.3, "delta": 1e-5, "random_state": 0, "target_bounds": (0.0, 200.0)}
    alone = PrivateRegression(**little, means_alone=True).fit(rows[:, :3], rows[:, 3])
    alone.release_.save(folder / "alone")
    mean = browser.ask("release", name="alone").json()
    assert mean["clear"] is None
    assert mean["coefficients"] == []
    assert "coefficients were not estimated" in mean["headline"]


def test_maps_of_scores_come_with_what_noise_could_show(browser, folder):
    rows = open_rows("people.csv", drop=["patient_id"], encode={"ward": ["a", "b"]})
    shown = {"show_scores": {"ward": ["a", "b"]}, "epsilon": 9.0, "delta": 1e-5}
    model = PrivatePCA(2, **shown, random_state=0).fit(rows)
    model.release_.save(folder / "shown")
    found = browser.ask("release", name="shown").json()["map"]
    assert [one["name"] for one in found["maps"]] == ["all rows", "a", "b", "all other rows"]
    assert np.allclose(found["maps"][0]["counts"], model.score_counts_)
    assert found["maps"][1]["level"] < found["maps"][0]["level"]


def test_single_components_are_stated_with_errors_of_their_loadings(browser, folder):
    found = browser.ask("release", name="first").json()
    release = Release.load(folder / "first")
    assert found["measure"] == "reproducibility"
    stated = release.arrays["component_mixing"].diagonal()
    assert [one["agreement"] for one in found["components"]] == stated.tolist()
    errors = np.array(found["loadings"]["errors"])
    assert errors.shape == np.shape(found["loadings"]["values"])
    assert np.allclose(found["loadings"]["reach"], 3 * errors)
    assert isinstance(found["groups"], list)


def test_two_releases_side_by_side(browser):
    found = browser.ask("compare", first="first", second="second").json()
    assert found["measures"] == ["reproducibility", "reproducibility"]
    assert found["rows"][0][0] == "Privacy spent"
    assert "8" in found["rows"][0][1]
    assert found["why"]  # columns of arrays have no names to compare by
    assert browser.ask("compare", first="first", second="none").status_code == 400


def test_it_can_be_taken_along(browser, folder):
    release = Release.load(folder / "first")
    answer = browser.ask("release/export", name="first", format="csv")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert sorted(archive.namelist()) == ["first.csv", "first.csv.statement.txt"]
        assert release.statement() in archive.read("first.csv.statement.txt").decode()
    whole = browser.ask("release/export", name="first", format="zip")
    (folder / "again.zip").write_bytes(whole.content)
    assert Release.fingerprint(folder / "again.zip") == Release.fingerprint(folder / "first")
    assert browser.ask("release/export", name="first", format="exe").status_code == 400


def test_the_page_to_sign_is_that_of_the_release_and_runs_nothing(browser, folder):
    answer = browser.ask("release/report", name="first")
    assert answer.content == (folder / "first" / "report.html").read_bytes()
    policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


def test_no_answer_holds_a_cell(browser):
    for path, asked in (
        ("state", {}),
        ("release", {"name": "first"}),
        ("compare", {"first": "first", "second": "second"}),
    ):
        text = browser.ask(path, **asked).text
        assert str(SECRET) not in text
        assert "secretive" not in text


def test_mistakes_of_the_page_are_one_line(browser, monkeypatch):
    monkeypatch.setattr(
        "eigenveil.studio.reading.examine", lambda *a: json.loads(f"[{SECRET}") and None
    )
    answer = browser.ask("release", name="first")
    assert answer.status_code == 500
    assert "please report it" in answer.json()["error"]
    assert str(SECRET) not in answer.text
    assert NAMES[0] not in answer.text
