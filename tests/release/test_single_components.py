"""What a release may state of single components."""

import numpy as np
import pytest

from eigenveil.exceptions import VerificationError
from eigenveil.release import check_arrays
from tests.release.samples import components

MIXING = np.array([[0.9, 0.05], [0.05, 0.9]])
ERRORS = np.full((2, 3), 0.1)


def check(mixing=MIXING, errors=ERRORS, scale=(1.0, 1.0, 1.0), **more):
    rows = np.eye(3)[:2]
    release = components(rows, [3, 2], mixing=MIXING, scale=scale)
    arrays = dict(release.arrays)
    changed = {"component_mixing": mixing, "loading_errors": errors, "mean": np.zeros(3)} | more
    arrays |= {"explained_variance": arrays["explained_variance_ratio"]} | changed
    arrays = {name: array for name, array in arrays.items() if array is not None}
    check_arrays("pca", release.settings, arrays)


def unknown(array, rows=1):
    array = array.copy()
    array[-rows:] = np.nan
    return array


def test_what_releases_state_is_accepted():
    check()
    check(mixing=None, errors=None)  # of earlier versions, and where no law is known
    check(mixing=unknown(MIXING), errors=unknown(ERRORS))
    check(mixing=unknown(MIXING, 2), errors=unknown(ERRORS, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"mixing": None},
        {"errors": None},
        {"mixing": MIXING[:1]},
        {"errors": ERRORS[:, :2]},
        {"mixing": unknown(MIXING)},
        {"errors": unknown(ERRORS)},
        {"mixing": np.where(np.eye(2) > 0, np.nan, MIXING), "errors": ERRORS},
        {"mixing": -MIXING},
        {"mixing": MIXING * 1.2},
        {"mixing": np.full((2, 2), 0.6)},
        {"mixing": MIXING * np.inf},
        {"errors": -ERRORS},
        {"errors": ERRORS * 20},
        {"scale": (1.0, 1.0, np.inf)},
    ],
    ids=str,
)
def test_what_no_release_can_state_is_refused(changes):
    with pytest.raises(VerificationError):
        check(**changes)
