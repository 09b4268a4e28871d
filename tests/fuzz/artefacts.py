"""Release folders and zips near valid ones, with sums that are right so that readers go on."""

import io
import json
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import Release
from eigenveil.release import Signature, read_statement
from eigenveil.release import files as stored
from eigenveil.report.page import render
from eigenveil.storage import archive
from tests.fuzz.case import Call, Case, Command
from tests.fuzz.stock import (
    loaded,
    npz,
    private_pem,
    public_pem,
    releases,
    rows,
)
from tests.fuzz.values import (
    any_json,
    dumped,
    mutated_bytes,
    mutated_json,
    mutated_text,
    odd_text,
)

__all__ = ["array_case", "container_case", "key_case", "statement_case"]

Random = random.Random
Files = dict[str, bytes]
_LATER = 99  # a format of pages that this version cannot check


def _write(place: Path, files: Files, name: str = "release") -> str:
    """Put files into a new folder; return its name."""
    (place / name).mkdir()
    for each, data in files.items():
        (place / name / each).write_bytes(data)
    return name


def _sealed(rng: Random, files: Files) -> Files:
    """Make the sums right, and the signature of one that was signed."""
    content = {name: files.get(name, b"") for name in stored.FILES}
    files = {**files, stored.SUMS: stored.sums(content)}
    if stored.SIGNATURE in files and rng.random() < 0.7:
        import cryptography.hazmat.primitives.serialization as form

        key = form.load_pem_private_key(private_pem(), None)
        files[stored.SIGNATURE] = Signature.of(files[stored.SUMS], key).encode()
    return files


def _repaged(files: Files) -> Files:
    """Render the page anew from what the other files say, as far as that can be done."""
    try:
        document, guarantee, owners = read_statement(files["release.json"])
        arrays = loaded_arrays(files["arrays.npz"])
        with warnings.catch_warnings(action="ignore"):
            page = render(guarantee, document, arrays, owners=owners)
        return {**files, "report.html": page.encode()}
    except Exception:  # readers will say what is wrong with it
        return files


def loaded_arrays(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def uses(rng: Random, place: Path, folder: str) -> Case:
    """What a receiver does with a release."""
    path = place / folder
    (place / "key.pem").write_bytes(private_pem())
    (place / "key.pem.pub").write_bytes(public_pem(rng.choice((1, 1, 2))))
    np.save(place / "rows.npy", rows(5))
    python: tuple[Any, ...] = (
        ("load", lambda: Release.load(path)),
        ("verify", lambda: Release.verify(path)),
        ("inspect", lambda: json.dumps(Release.inspect(path))),
        ("page", lambda: Release.load(path).page()),
        ("transform", lambda: Release.load(path).transform(np.zeros((2, 3)))),
        ("repr", lambda: repr(Release.load(path)) + Release.load(path).statement()),
    )
    words: tuple[str, ...]
    match rng.randrange(14):
        case 0 | 1:
            words = ("verify", folder)
        case 2:
            noted = rng.choice(("0" * 16, "x" * 64, "", "A" * 15, odd_text(rng)))
            words = ("verify", folder, "--fingerprint", noted)
        case 3:
            words = (rng.choice(("verify", "inspect")), folder, "--key", "key.pem.pub")
        case 4 | 5:
            words = ("inspect", folder, *rng.choice(((), ("--json",))))
        case 6 | 7:
            words = ("report", folder, *rng.choice(((), ("-o", "page.html"))))
        case 8:
            form = rng.choice(("csv", "csv", "parquet", "plink"))
            words = ("export", folder, f"exported.{form}", "--format", form)
        case 9:
            words = ("sign", folder, "--key", "key.pem")
        case 10:
            scores = Command(("transform", folder, "rows.npy"), scores=True)
            return Case([scores])
        case _:
            name, function = rng.choice(python)
            known = ("the release has no centre",)
            return Case([Call(f"Release.{name}", function, warns=known)])
    return Case([Command(words)])


def statement_case(rng: Random, place: Path) -> Case:
    """A release.json of which values were changed, with a page and sums that go with it."""
    files = dict(releases()[rng.choice(list(releases()))])
    document = json.loads(files["release.json"])
    if rng.random() < 0.5:
        document = _restated(rng, document)
    else:
        document = mutated_json(rng, document, rng.choice((1, 1, 2, 3)))
    if isinstance(document, dict) and rng.random() < 0.4:
        document["page_format"] = _LATER
    if rng.random() < 0.1:
        files["release.json"] = mutated_text(rng, json.dumps(document, indent=2))
    else:
        files["release.json"] = dumped(document)
    if rng.random() < 0.6:
        files = _repaged(files)
    return uses(rng, place, _write(place, _sealed(rng, files)))


def _restated(rng: Random, document: Any) -> Any:
    """Return a statement that a release could have made: readers have to go through with it."""
    settings = document["settings"]
    names = [odd_text(rng) for _ in range(settings["n_features"])]
    words = ("spherical", "tangent", "oja", "x", "nothing-known")
    large = rng.choice((0, 1, 1e-300, 1e300, 5e-324, 1.7e308, 10**15, 0.5))
    changes: dict[str, Any] = {
        "feature_names": rng.choice((names, [str(i) for i in range(len(names))])),
        "n_rows": rng.choice((1, None, 10**15)),
        "row_norm": rng.choice((None, 1e-300, 1e300)),
        "noise_floor": large,
        "matrix_floor": large,
        "noise_scale": large,
        "bounds": {"low": [-1.0] * rng.choice((1, len(names))), "high": [1e300] * len(names)},
        "shares": {"centre": large, "components": large},
        "choice": rng.choice((None, "a reason", odd_text(rng))),
        "centring": rng.choice(("none", "mean", "located", "paired", "inside")),
        "on_invalid": rng.choice(("raise", "zero", None)),
        "trace_bound": large or 1,
        "ledger": {
            "notion": "epsilon",
            "spent_before": large,
            "spent": rng.choice((large, 0)),
            "granted": large or 1,
            "delta": rng.choice((None, 1e-6, 1e-300)),
        },
    }
    for name in rng.sample(list(changes), rng.choice((1, 1, 2, 4))):
        settings[name] = changes[name]
    if rng.random() < 0.2:
        document["mechanism"] = rng.choice(words)
    for owner in document.get("owners", ()):
        if rng.random() < 0.3:
            owner["name"] = rng.choice((odd_text(rng), owner["name"]))
            owner["basis_weight"] = rng.choice((0, 1, 0.5))
    return document


def array_case(rng: Random, place: Path) -> Case:
    """Arrays of which numbers, shapes, types and names were changed."""
    files = dict(releases()[rng.choice(list(releases()))])
    document = json.loads(files["release.json"])
    arrays: dict[str, Any] = {k: np.array(v) for k, v in loaded(files).arrays.items()}
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(arrays))
        arrays[name] = _odd_array(rng, arrays[name])
        if rng.random() < 0.1:
            arrays[rng.choice(("extra", "mean", "a" * 70, "../x"))] = arrays[name]
        if rng.random() < 0.1 and len(arrays) > 1:
            del arrays[rng.choice(list(arrays))]
    packed = npz(arrays)
    if rng.random() < 0.2:
        packed = _odd_zip(rng, packed)
    files["arrays.npz"] = packed
    if rng.random() < 0.8:  # as the statement then has to say
        shown = {k: {"dtype": str(v.dtype), "shape": list(v.shape)} for k, v in arrays.items()}
        document["arrays"] = shown
    if rng.random() < 0.5:
        document["page_format"] = _LATER
    files["release.json"] = dumped(document)
    files = _repaged(files)
    return uses(rng, place, _write(place, _sealed(rng, files)))


def _odd_array(rng: Random, array: Any) -> Any:
    if array.dtype != np.float64 or not array.size or not array.ndim:
        return array
    flat = array.reshape(-1)
    match rng.randrange(10):
        case 0:
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(("f4", "i8", "c16", "?", "U9")))
        case 1:
            return array.reshape(rng.choice(((1, *array.shape), (-1,), (*array.shape, 1))))
        case 2:
            return np.concatenate([array, array])
        case 3:
            return array[:0]
        case 4:
            with np.errstate(all="ignore"):
                return array * rng.choice((-1.0, 1e300, 0.0, 1e-300))
        case 5:
            return np.asfortranarray(array)
        case 6:
            return np.array(1.0)
    odd = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, -1.0, 0.0, 2.0)
    flat[rng.randrange(flat.size)] = rng.choice(odd)
    return array


def _odd_zip(rng: Random, data: bytes) -> bytes:
    """Return a zip with the same files and something odd about it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.3 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        if rng.random() < 0.3:
            archive.comment = b"PK\5\6" * 3
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = rng.choice((0o644, 0o120777, 0o40755, 0o104755, 0)) << 16
            if rng.random() < 0.1:
                entry.extra = rng.randbytes(4)
            archive.writestr(entry, content, kind)
        if rng.random() < 0.2:
            archive.writestr(rng.choice(("../evil", "/evil", "a\nb", "x/")), b"x")
    packed = buffer.getvalue()
    return mutated_bytes(rng, packed) if rng.random() < 0.4 else packed


def container_case(rng: Random, place: Path) -> Case:
    """Files that are missing, too many, altered or no files; zips; sums; signatures."""
    files = dict(releases()[rng.choice(list(releases()))])
    name = rng.choice(list(files))
    match rng.randrange(9):
        case 0:
            files[name] = mutated_bytes(rng, files[name])
        case 1:
            files[name] = mutated_bytes(rng, files[name])
            files = _sealed(rng, files)
        case 2:
            del files[name]
        case 3:
            files[rng.choice(("extra", "a\nb", "\x1b[2K", "Report.html"))] = b"extra"
        case 4:
            files[stored.SUMS] = mutated_text(rng, files[stored.SUMS].decode())
        case 5:
            signed = releases()["signed"][stored.SIGNATURE].decode()
            files[stored.SIGNATURE] = mutated_text(rng, signed)
        case 6:
            files["report.html"] = files["report.html"].replace(b"</", b"<!", 1)
            files = _sealed(rng, files)
        case 7:
            files["release.json"] = dumped(any_json(rng))
            files = _sealed(rng, files)
    if rng.random() < 0.4:
        packed = archive.zipped(files)
        data = _odd_zip(rng, packed) if rng.random() < 0.5 else mutated_bytes(rng, packed)
        (place / "release.zip").write_bytes(data)
        return uses(rng, place, "release.zip")
    folder = _write(place, files)
    if rng.random() < 0.2:
        odd = place / folder / rng.choice(list(files))
        odd.unlink()
        if rng.random() < 0.5:
            odd.mkdir()
        else:
            odd.symlink_to(rng.choice((odd.name, "../key.pem", "nowhere", "/dev/zero")))
    return uses(rng, place, folder)


def key_case(rng: Random, place: Path) -> Case:
    """Keys that are none."""
    _write(place, releases()[rng.choice(("pca", "signed"))])
    np.save(place / "rows.npy", rows(40))
    keys = (private_pem(), public_pem(), private_pem(2))
    other = b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    data = rng.choice((mutated_bytes(rng, rng.choice(keys)), rng.choice(keys), other, b"", b"\0"))
    (place / "key").write_bytes(data)
    (place / "key.pub").write_bytes(mutated_bytes(rng, public_pem()))
    name = rng.choice(("key", "key", "key.pub", "nowhere", ".", "x" * 300))
    words = rng.choice(
        (
            ("sign", "release", "--key", name),
            ("verify", "release", "--key", name),
            ("inspect", "release", "--key", name),
            ("fit", "rows.npy", "--rho", "1", "--sign", name, "-o", "out"),
            ("keygen", rng.choice((name, "new", "none/new", odd_text(rng) or "new"))),
            ("federate", "keys", "owner", rng.choice((name, odd_text(rng))), "-o", "keys"),
        )
    )
    if words[0] == "federate" and words[3].startswith("-"):
        words = (*words[:3], "--", words[3], *words[4:])
    return Case([Command(words)])
