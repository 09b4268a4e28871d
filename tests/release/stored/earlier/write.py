"""Write releases of made-up rows: ``python write.py page-9.tar.xz``, with the version to be kept.

Runs with every version since the first one, as far as that can make a kind of release. Archives
beside this file hold what it wrote: one or more per format of the page, with the fingerprints that
were noted, the ledger that was charged and the public key of the signer.
"""

import sys
import tarfile
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import eigenveil
from eigenveil import PrivateCovariance, PrivatePCA

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = np.random.default_rng(5).standard_normal((3000, 3)) * [3, 2, 1] + 5
IDS = np.arange(3000) // 2
HOLES = np.where(np.random.default_rng(6).random(ROWS.shape) < 0.05, np.nan, ROWS)


def components(**options):
    """Return components without bounds; the earliest versions need one."""
    try:
        return PrivatePCA(2, **BUDGET, **options)
    except TypeError:
        return PrivatePCA(2, **BUDGET, row_norm=20.0, **options)


def bounded(**options):
    """Return components of clipped rows."""
    return PrivatePCA(2, **BUDGET, row_norm=20.0, **options)


def charged(folder):
    """Return components that a ledger paid for."""
    ledger = eigenveil.Ledger.create(folder / "table.ledger", epsilon=2.0, delta=1e-6)
    return components(ledger=ledger).fit(ROWS)


def stream():
    """Return a stream of four days."""
    found = eigenveil.StreamingPCA(2, **BUDGET)
    for day in np.split(ROWS, 4):
        found.partial_fit(day)
    return found


def continual():
    """Return a running covariance after two days."""
    found = eigenveil.ContinualCovariance(horizon=8, **BUDGET, row_norm=20.0, centre=5.0)
    for day in np.split(ROWS, 2):
        found.partial_fit(day)
    return found


def joint():
    """Return components of two owners, in a class with the attribute of a fit."""
    from eigenveil.privacy import Contribution, FederatedGuarantee

    fits = {"north": components().fit(ROWS[:2000]), "south": components().fit(ROWS[2000:])}
    owners = [
        Contribution(
            name=name,
            n_rows=fit.n_samples_,
            guarantee=fit.privacy_,
            basis_weight=0.5,
            values_weight=0.5,
        )
        for name, fit in fits.items()
    ]
    north = fits["north"]
    settings = {**north.release_.settings, "n_rows": 3000, "noise_scale": 0.0, "noise_floor": 0.0}
    release = eigenveil.Release(
        kind="pca",
        mechanism="federated",
        guarantee=FederatedGuarantee.of(owner.guarantee for owner in owners),
        owners=owners,
        settings={**settings, "matrix_floor": 0.0},
        arrays=dict(north.release_.arrays),
    )
    return SimpleNamespace(release_=release)


KINDS = {
    "components": charged,
    "bounded": lambda _: bounded().fit(ROWS),
    "persons": lambda _: components().fit(ROWS, groups=IDS),
    "simulation": lambda _: bounded(random_state=1).fit(ROWS),
    "empty-cells": lambda _: components(on_missing="centre").fit(HOLES),
    "scores": lambda _: PrivatePCA(2, **BUDGET, show_scores=True).fit(ROWS),
    "pure": lambda _: PrivatePCA(2, epsilon=1.0, row_norm=20.0).fit(ROWS),
    "standardised": lambda _: PrivatePCA(2, **BUDGET, scale="private").fit(ROWS),
    "covariance": lambda _: PrivateCovariance(**BUDGET, row_norm=20.0).fit(ROWS),
    "covariance-ranges": lambda _: PrivateCovariance(**BUDGET, bounds=(-10.0, 20.0)).fit(ROWS),
    "covariance-unbounded": lambda _: PrivateCovariance(**BUDGET).fit(ROWS),
    "regression": lambda _: eigenveil.PrivateRegression(**BUDGET).fit(ROWS[:, :2], ROWS[:, 2]),
    "stream": lambda _: stream(),
    "continual": lambda _: continual(),
    "joint": lambda _: joint(),
}


def write(folder):
    """Write every kind that this version can make, and note the fingerprints."""
    warnings.simplefilter("ignore")
    noted = []
    for name, make in KINDS.items():
        try:
            release = make(folder).release_
        except (AttributeError, ImportError, TypeError, ValueError) as error:  # not in this version
            print(f"{name}: {type(error).__name__} {error}", file=sys.stderr)
            continue
        try:
            from eigenveil.release import generate_key

            if not (folder / "office.key").exists():
                generate_key(folder / "office.key")
            release.save(folder / name, key=folder / "office.key")
        except ImportError:  # before there were signatures
            release.save(folder / name)
        noted.append(f"{eigenveil.Release.fingerprint(folder / name)}  {name}\n")
    (folder / "office.key").unlink(missing_ok=True)
    (folder / "noted").write_text("".join(noted))


def nobodys(member):
    """Drop owner and time of a file."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, tarfile.open(sys.argv[1], "w:xz") as archive:
        write(Path(place))
        archive.add(place, ".", filter=nobodys)
