"""``python -m tests.digests [--write] [WORD ...]``: compare seeded fits with the digests kept.

Bits depend on the processor and on the versions of numpy and scipy, so nothing but this command
compares them, before and after a change on one machine.
"""

import hashlib
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from eigenveil.privacy import cost_to_dict
from tests.digests.fits import FITS

KEPT = Path(__file__).with_name("digests.json")
ARRAYS = {  # a name of our own: the attribute that holds it
    "components": "components_",
    "eigenvalues": "explained_variance_",
    "agreement": "reliability_",
    "reproducibility": "reproducibility_",
    "matrix": "covariance_",
    "entry noise": "covariance_noise_",
    "mean": "mean_",
    "location": "location_",
    "scales": "scale_",
    "coefficients": "coef_",
    "intercept": "intercept_",
    "coefficient noise": "coef_noise_",
    "level": "noise_scale_",
    "floor": "noise_floor_",
    "radius": "row_norm_",
    "captured": "captured_",
}


def digest(fitted):
    """Return one hash of all released numbers and of their cost."""
    found = hashlib.sha256()

    def add(key, value):
        found.update(key.encode())
        found.update(np.ascontiguousarray(value, dtype=np.float64).tobytes())

    release = fitted.release_ if hasattr(fitted, "release_") else fitted
    guarantee = release.guarantee
    if release is fitted:  # of several owners
        for key in ("components", "covariance", "explained_variance"):
            if key in release.arrays:
                add(key, release.arrays[key])
    else:
        for key, name in ARRAYS.items():
            value = getattr(fitted, name, None)
            if value is not None:
                add(key, value)
    cost = getattr(guarantee, "cost", None)
    found.update(repr(cost and sorted(map(str, cost_to_dict(cost).items()))).encode())
    return found.hexdigest()[:16]


def main(words):
    write = "--write" in words
    chosen = [word for word in words if word != "--write"]
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found, start = {}, time.perf_counter()
    for name, fit in FITS.items():
        if chosen and not any(word in name for word in chosen):
            continue
        try:
            found[name] = digest(fit())
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    failed = [name for name, value in found.items() if ":" in value]
    changed = [name for name, value in found.items() if value != kept.get(name)]
    for name in failed if write else changed:
        print(f"{name}: {found[name]}, was {kept.get(name)}")
    if write:
        KEPT.write_text(json.dumps(kept | found, indent=1) + "\n")
    print(
        f"{len(found)} fits, {len(failed)} failed, {len(changed)} changed, "
        f"{time.perf_counter() - start:.0f} s"
    )
    return bool(failed or (changed and not write))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main(sys.argv[1:]))
