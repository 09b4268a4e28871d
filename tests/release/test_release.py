"""Save, load, verify; nothing goes unnoticed."""

import hashlib
import html
import io
import json
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eigenveil.release
from eigenveil import PrivateCovariance, PrivatePCA, Release, open_rows
from eigenveil.exceptions import InvalidParameterError, VerificationError
from eigenveil.release import content as schema

ROWS = np.random.default_rng(0).standard_normal((40, 4))
SCHEMA = json.loads(
    Path(eigenveil.release.__file__).with_name("release-1.schema.json").read_text("utf-8")
)


def releases():
    budget = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 3.0}
    private_count = {"adjacency": "add-remove", "centring": "mean"}
    return [
        PrivatePCA(2, **budget).fit(ROWS).release_,
        PrivateCovariance(**budget).fit(ROWS).release_,
        PrivatePCA(rho=0.1, bounds=(-4, 4), row_norm=8.0, **private_count).fit(ROWS).release_,
        PrivateCovariance(**budget, random_state=1).fit(ROWS).release_,
    ]


@pytest.mark.parametrize("release", releases(), ids=lambda r: f"{r.kind}-{r.guarantee.adjacency}")
def test_save_load_verify(release, tmp_path):
    folder = release.save(tmp_path / "out")
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["release.json", "arrays.npz", "report.html", "SHA256SUMS"]
    )
    loaded = Release.load(folder)
    assert loaded.as_dict() == release.as_dict()
    assert loaded.guarantee == release.guarantee
    for name, array in release.arrays.items():
        assert np.array_equal(loaded.arrays[name], array, equal_nan=True)  # pairs have no mean
    assert Release.verify(folder, fingerprint=Release.fingerprint(folder)).kind == release.kind
    jsonschema.validate(release.as_dict(), SCHEMA)
    assert list(tmp_path.iterdir()) == [folder]  # no draft is left behind


@pytest.fixture
def folder(tmp_path):
    return releases()[0].save(tmp_path / "release")


def reseal(folder):
    """What a careful forger does: recompute the sums."""
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("release.json", "arrays.npz", "report.html")
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


FILES = ["release.json", "arrays.npz", "report.html", "SHA256SUMS"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A folder that property tests damage and mend."""
    return releases()[0].save(tmp_path_factory.mktemp("scratch") / "release")


@pytest.mark.parametrize("name", FILES)
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255), cut=st.booleans())
@settings(max_examples=60)
def test_a_changed_byte_or_a_cut_is_detected(scratch, name, place, mask, cut):
    good = (scratch / name).read_bytes()
    at = int(place * len(good))
    bad = good[:at] if cut else good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :]
    (scratch / name).write_bytes(bad)
    try:
        with pytest.raises(VerificationError) as error:
            Release.verify(scratch)
        assert "\n" not in str(error.value)
    finally:
        (scratch / name).write_bytes(good)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@settings(max_examples=120)
def test_a_forger_who_changes_a_byte_of_the_arrays_makes_no_other_error(scratch, place, mask):
    """The sums are right again: what is read is a release, or is refused."""
    good = (scratch / "arrays.npz").read_bytes()
    at = int(place * len(good))
    bad = good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :]
    (scratch / "arrays.npz").write_bytes(bad)
    reseal(scratch)
    try:
        with suppress(VerificationError):
            assert Release.verify(scratch).kind == "pca"
    finally:
        (scratch / "arrays.npz").write_bytes(good)
        reseal(scratch)


@pytest.mark.parametrize("name", ["release.json", "arrays.npz", "report.html", "SHA256SUMS"])
def test_a_missing_file_is_detected(folder, name):
    (folder / name).unlink()
    with pytest.raises(VerificationError, match="not a complete release folder"):
        Release.verify(folder)


def test_sums_in_another_order_are_told_from_wrong_ones(folder):
    """Their fingerprint is another one, and whoever signed them did not sign this."""
    path = folder / "SHA256SUMS"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    with pytest.raises(VerificationError, match="right sums but not as they were written"):
        Release.verify(folder)
    path.write_text("".join(lines))
    assert Release.verify(folder)


def test_an_extra_file_is_detected(folder):
    (folder / "scores.csv").write_text("1,2\n")
    with pytest.raises(VerificationError, match="not part of it"):
        Release.verify(folder)


def test_a_resealed_folder_is_detected_by_its_fingerprint(folder):
    noted = Release.fingerprint(folder)
    other = releases()[0].save(folder.with_name("other"))
    for name in ("release.json", "arrays.npz", "report.html", "SHA256SUMS"):
        (folder / name).write_bytes((other / name).read_bytes())
    assert Release.verify(folder).kind == "pca"
    with pytest.raises(VerificationError, match="not the one you noted"):
        Release.verify(folder, fingerprint=noted)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["guarantee"]["budget"].update(epsilon=0.1),
        lambda d: d["guarantee"].update(simulated=True),
        lambda d: d["guarantee"].update(sentence="Perfectly private."),
        lambda d: d["guarantee"]["cost"].update(mu=0.001),
        lambda d: d["guarantee"]["cost"].update(mu=-1.0),
        lambda d: d["guarantee"]["budget"].update(rho=0.1),
        lambda d: d["arrays"]["components"].update(shape=[1, 1]),
        lambda d: d.update(schema="eigenveil-release/2"),
        lambda d: d.update(kind="covariance"),
        lambda d: d.update(note="extra"),
        lambda d: d.pop("kind"),
        lambda d: d["settings"].update(n_rows="many"),
    ],
)
def test_a_statement_at_odds_with_itself_is_detected(folder, change):
    document = json.loads((folder / "release.json").read_text())
    change(document)
    (folder / "release.json").write_text(json.dumps(document))
    reseal(folder)
    with pytest.raises(VerificationError):
        Release.verify(folder)


def test_a_report_at_odds_with_the_statement_is_detected(folder):
    page = (folder / "report.html").read_text("utf-8")
    (folder / "report.html").write_text(page.replace("epsilon = 1,", "epsilon = 0.1,"), "utf-8")
    reseal(folder)
    with pytest.raises(VerificationError, match=r"report\.html does not say"):
        Release.verify(folder)


def test_a_budget_below_the_cost_is_detected(folder):
    """Consistent in every word, and still a lie: the noise does not pay for the claim."""
    for name in ("release.json", "report.html"):
        text = (folder / name).read_text("utf-8")
        for old, new in (("epsilon = 1,", "epsilon = 0.1,"), ('"epsilon": 1.0', '"epsilon": 0.1')):
            text = text.replace(old, new)
        (folder / name).write_text(text.replace("a factor of 2.72", "a factor of 1.11"), "utf-8")
    reseal(folder)
    with pytest.raises(VerificationError, match="impossible guarantee"):
        Release.verify(folder)


def test_an_unwritable_place_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameterError, match="choose a writable place"):
        releases()[0].save(tmp_path / "file" / "release")


def test_pickled_arrays_are_refused(folder):
    np.savez(folder / "arrays.npz", components=np.array([{"a": 1}], dtype=object))
    reseal(folder)
    with pytest.raises(VerificationError, match="cannot be read"):
        Release.verify(folder)


@pytest.mark.parametrize("array", [np.array(["text"]), np.ones(3), np.ones((2, 9))])
def test_arrays_of_another_kind_are_refused(folder, array):
    np.savez(folder / "arrays.npz", components=array)
    reseal(folder)
    with pytest.raises(VerificationError, match=r"arrays\.npz"):
        Release.verify(folder)


def compressed(components):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, components=components)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (compressed(np.zeros((1, 10_000_000))), "may have"),  # 80 MB in 78 kB
        (b"", "cannot be read"),
        (b"PK\x05\x06" + 18 * b"\0", "does not hold a pca release"),
    ],
)
def test_no_archive_fills_the_memory(folder, data, match):
    (folder / "arrays.npz").write_bytes(data)
    reseal(folder)
    with pytest.raises(VerificationError, match=match):
        Release.verify(folder)


def test_an_array_that_claims_to_be_huge_is_refused(folder):
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 4)}
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(folder / "arrays.npz", "w") as archive:
        archive.writestr("components.npy", buffer.getvalue())
    reseal(folder)
    with pytest.raises(VerificationError, match="cannot be read"):
        Release.verify(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("components", np.nan), ("mean", np.inf), ("scale", np.nan), ("scale", 0.0), ("extra", None)],
)
def test_arrays_without_usable_numbers_are_refused(folder, name, value):
    release = Release.load(folder)
    arrays = {key: array.copy() for key, array in release.arrays.items()}
    if name == "extra":
        arrays[name] = np.array([np.nan])
    else:
        arrays[name].flat[0] = value
    np.savez(folder / "arrays.npz", **arrays)
    reseal(folder)
    with pytest.raises(VerificationError, match=f"no usable numbers in '{name}'"):
        Release.verify(folder)
    with pytest.raises(VerificationError, match="no usable numbers"):
        replace(release, arrays=arrays).save(folder.with_name("again"))
    assert not folder.with_name("again").exists()


@pytest.mark.parametrize(
    "text",
    ["{", "", "[" * 100_000, "\udcff", '{"a": 1, "a": 1}', "[1e999]", "[NaN]", "1" * 5000, "null"],
)
def test_unreadable_json_is_refused(folder, text):
    (folder / "release.json").write_bytes(text.encode(errors="surrogateescape"))
    reseal(folder)
    with pytest.raises(VerificationError, match=r"release\.json"):
        Release.verify(folder)


@pytest.mark.parametrize("depth", [1000, 10_000])
def test_a_statement_nested_too_deeply_is_refused(folder, depth):
    text = (folder / "release.json").read_text()
    document = json.loads(text)
    cost = json.dumps(document["guarantee"]["cost"])
    document["guarantee"]["cost"] = "HERE"
    nested = '{"kind": "composed", "parts": [' * depth + cost + "]}" * depth
    (folder / "release.json").write_text(json.dumps(document).replace('"HERE"', nested))
    reseal(folder)
    with pytest.raises(VerificationError):
        Release.verify(folder)


@pytest.mark.parametrize("number", [2, 10, 123456789])
def test_a_newer_schema_asks_for_an_upgrade(folder, number):
    document = json.loads((folder / "release.json").read_text())
    document.update(schema=f"eigenveil-release/{number}", whatever="is new")
    (folder / "release.json").write_text(json.dumps(document))
    reseal(folder)
    with pytest.raises(VerificationError, match="made by a newer eigenveil: upgrade"):
        Release.verify(folder)


@pytest.mark.parametrize("stated", ["eigenveil-release/0", "eigenveil-release/1 ", "other/2", 2])
def test_no_schema_of_ours(folder, stated):
    document = json.loads((folder / "release.json").read_text())
    document.update(schema=stated)
    (folder / "release.json").write_text(json.dumps(document))
    reseal(folder)
    with pytest.raises(VerificationError, match="is not 'eigenveil-release/1'"):
        Release.verify(folder)


@pytest.mark.parametrize("release", releases()[:2], ids=lambda r: r.kind)
def test_inspect_is_plain_json(release, tmp_path):
    folder = release.save(tmp_path / "r")
    seen = Release.inspect(folder)
    assert json.loads(json.dumps(seen, allow_nan=False)) == seen
    assert {key: seen[key] for key in release.as_dict()} == release.as_dict()
    assert seen["fingerprint"] == Release.fingerprint(folder)
    assert (seen["signer"], seen["signature"]) == (None, "not signed")
    if release.kind == "pca":
        assert seen["values"]["reliability"] == release.arrays["reliability"].tolist()
    else:
        assert seen["values"] == {}


def test_saving_never_overwrites(folder):
    with pytest.raises(InvalidParameterError, match="exists already"):
        releases()[1].save(folder)


def test_the_seed_is_not_stored(tmp_path):
    release = PrivatePCA(rho=1.0, row_norm=1.0, random_state=123456789).fit(ROWS).release_
    folder = release.save(tmp_path / "r")
    assert b"123456789" not in b"".join(p.read_bytes() for p in folder.iterdir())


def test_the_report_is_self_contained_and_repeats_the_sentence(folder):
    page = (folder / "report.html").read_text("utf-8")
    for label, text in Release.load(folder).guarantee.statements():
        assert f'<th scope="row">{label}</th><td>{html.escape(text)}</td>' in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "noise floor" in page


def test_a_simulation_report_warns(tmp_path):
    release = releases()[3]
    page = (release.save(tmp_path / "r") / "report.html").read_text("utf-8")
    assert "Do not publish." in page


def test_column_names_are_escaped(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["<script>alert(1)</script>", "b", "c", "d"])
    release = PrivatePCA(rho=1.0, row_norm=1.0).fit(frame).release_
    assert "<script" not in (release.save(tmp_path / "r") / "report.html").read_text("utf-8")


def nested(inner):
    return st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-1, 2) | st.text(max_size=3),
    nested,
    max_leaves=4,
)
VALID = releases()[0].as_dict()


@given(st.data(), json_values)
@settings(max_examples=80, deadline=None)
def test_our_checker_agrees_with_a_full_json_schema_validator(data, value):
    """Replace, add or remove one member anywhere; both must give the same verdict."""
    document = json.loads(json.dumps(VALID))
    place = document
    while data.draw(st.booleans()):
        inner = [v for v in place.values() if isinstance(v, dict) and v]
        if not inner:
            break
        place = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from([*place, "new"]))
    if data.draw(st.booleans()):
        place[key] = value
    else:
        place.pop(key, None)
    expected = jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    try:
        schema.check(document)
        ours = True
    except VerificationError:
        ours = False
    # JSON Schema counts 1.0 as an integer; we are stricter.
    assert ours == expected or (expected and "1.0" in json.dumps(value) + json.dumps(document))


@given(st.data(), json_values)
@settings(max_examples=150)
def test_a_forger_of_the_statement_makes_no_other_error(scratch, data, value):
    """As above, with the sums made right again: a release, or a refusal."""
    good = (scratch / "release.json").read_bytes()
    document = json.loads(good)
    place = document
    while data.draw(st.booleans()):
        inner = [v for v in place.values() if isinstance(v, dict) and v]
        if not inner:
            break
        place = data.draw(st.sampled_from(inner))
    place[data.draw(st.sampled_from(list(place)))] = value
    (scratch / "release.json").write_text(json.dumps(document))
    reseal(scratch)
    try:
        with suppress(VerificationError):
            Release.load(scratch)
    finally:
        (scratch / "release.json").write_bytes(good)
        reseal(scratch)


def test_unknown_keywords_in_the_schema_are_refused():
    with pytest.raises(VerificationError, match="keywords"):
        schema.check({}, {"patternProperties": {}})


def of_persons(tmp_path, name="patient"):
    path = tmp_path / "t.csv"
    ids = np.arange(len(ROWS)) // 2
    lines = [f"p{i}," + ",".join(map(str, row)) for i, row in zip(ids, ROWS, strict=True)]
    path.write_text("\n".join([f'"{name}",a,b,c,d', *lines]))
    fitted = PrivatePCA(rho=1.0, row_norm=1.0).fit(open_rows(path, unit=name))
    return fitted.release_


def test_a_release_says_whom_it_protects(tmp_path):
    release = of_persons(tmp_path)
    document = release.as_dict()
    jsonschema.validate(document, SCHEMA)
    assert document["guarantee"]["unit"] == "all rows of one person"
    assert document["guarantee"]["unit_column"] == "patient"
    assert document["settings"]["n_rows"] == 20
    loaded = Release.verify(release.save(tmp_path / "r"))
    assert loaded.guarantee == release.guarantee
    assert "unit_column" not in VALID["guarantee"]  # rows are written as they ever were


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "one row"},
        {"unit": "all rows of one group"},
        {"unit": "all rows of one family"},
        {"unit_column": None},
        {"unit_column": "hospital"},
    ],
    ids=str,
)
def test_another_unit_than_was_promised_is_noticed(tmp_path, change):
    folder = of_persons(tmp_path).save(tmp_path / "r")
    document = json.loads((folder / "release.json").read_text())
    stated = document["guarantee"]
    stated.update(change)
    if stated["unit_column"] is None:
        del stated["unit_column"]
    (folder / "release.json").write_text(json.dumps(document))
    reseal(folder)
    with pytest.raises(VerificationError):
        Release.load(folder)


def test_the_name_of_a_unit_is_escaped(tmp_path):
    folder = of_persons(tmp_path, "<script>x</script>").save(tmp_path / "r")
    assert "<script" not in (folder / "report.html").read_text("utf-8")
    assert "persons." in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(mechanism="tangent), signed by me\nfingerprint"),
        lambda d: d.update(created="yesterday\n"),
        lambda d: d.update(created="2025-01-01T00:00:00+00:00\n"),
        lambda d: d.update(library="0.1.0\x1b[2K"),
        lambda d: d["settings"].update(choice="a\nb"),
        lambda d: d["settings"].update(choice="a\ud800"),
        lambda d: d["settings"].update(feature_names=["a\ud800", "b", "c", "d"]),
        lambda d: d["settings"].update(noise_scale=10**400),
        lambda d: d["settings"].update(n_rows=10**17),
        lambda d: d["settings"].update(on_missing="centre"),
    ],
)
def test_strings_and_numbers_that_would_mislead_are_refused(folder, change):
    document = json.loads((folder / "release.json").read_text())
    change(document)
    (folder / "release.json").write_text(json.dumps(document))
    reseal(folder)
    with pytest.raises(VerificationError):
        Release.verify(folder)


@pytest.mark.parametrize("field", ["bounds", "ledger", "assumption"])
@pytest.mark.parametrize("text", ["a\nb", "a\x1b[1A", "a\x9b1A", "\u202eb", "a\u2028b"])
def test_no_word_of_the_promise_moves_the_cursor(field, text):
    """Sentence and page would agree with it."""
    document = json.loads(json.dumps(VALID))
    schema.check(document)
    document["guarantee"][field] = [text] if field == "bounds" else text
    for checks in (schema.check, lambda d: jsonschema.validate(d, SCHEMA)):
        with pytest.raises((VerificationError, jsonschema.ValidationError)):
            checks(document)


HEADERS = {
    "TokenError": b"{'descr': (",
    "IndentationError": b"  {\n 'descr'\n   :",
    "nested": b"(" * 9000,
    "no dictionary": b"[1, 2]",
    "text": b"\xff\x00{}",
    "other keys": b"{'descr': '<f8'}",
    "odd type": b"{'descr': [[]], 'fortran_order': False, 'shape': (1,)}",
    "index": b"{'descr': (), 'fortran_order': False, 'shape': (1,)}",
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.filterwarnings("ignore")
def test_headers_of_arrays_that_make_no_sense(folder, header):
    text = HEADERS[header]
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    with zipfile.ZipFile(folder / "arrays.npz", "w") as archive:
        archive.writestr("components.npy", data)
    reseal(folder)
    with pytest.raises(VerificationError, match="cannot be read"):
        Release.verify(folder)


def test_an_array_with_two_names_is_refused(folder):
    with zipfile.ZipFile(folder / "arrays.npz", "a") as archive:
        archive.writestr("mean", archive.read("mean.npy"))
    reseal(folder)
    with pytest.raises(VerificationError, match="other things than arrays"):
        Release.verify(folder)


def test_names_of_arrays_are_plain(folder):
    release = Release.load(folder)
    odd = replace(release, arrays={**release.arrays, "a\x1b[2K": np.ones(1)})
    with pytest.raises(VerificationError, match="a name in"):
        odd.save(folder.with_name("odd"))


def test_control_characters_in_names_of_columns_are_spelled_out(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["a\x1b[2K\n", "b", "c", "d"])
    folder = PrivatePCA(1, rho=1.0, row_norm=1.0).fit(frame).release_.save(tmp_path / "r")
    assert "\x1b" not in (folder / "report.html").read_text("utf-8")
    assert Release.load(folder).feature_names[0] == "a\x1b[2K\n"
