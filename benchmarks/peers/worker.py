"""One fit of one peer, in its own environment: ``worker.py PEER ROWS.npy K EPSILON OUT.npy``.

Rows lie in the unit ball and are centred; components are asked for at a pure epsilon. Prints the
seconds of the fit, imports left out, and the version of the peer.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

warnings.simplefilter("ignore")
BINS = 16


def diffprivlib(rows, k, epsilon):
    from diffprivlib.models import PCA

    model = PCA(k, epsilon=epsilon, data_norm=1.0, centered=True)
    return lambda: model.fit(rows).components_


def opendp(rows, k, epsilon):
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    n, d = rows.shape
    model = dp.sklearn.decomposition.PCA(
        epsilon=epsilon, row_norm=1.0, n_samples=n, n_features=d, n_components=k
    )
    return lambda: model.fit(rows).components_


def smartnoise_synth(rows, k, epsilon):
    """Components of made-up rows in bins, by a synthesizer that has a pure epsilon."""
    import pandas as pd
    from snsynth import Synthesizer

    edges = np.linspace(-1, 1, BINS + 1)[1:-1]
    frame = pd.DataFrame(np.digitize(rows, edges), columns=[f"c{j}" for j in range(rows.shape[1])])

    def fit():
        model = Synthesizer.create("mwem", epsilon=epsilon, split_factor=2)
        model.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
        made = model.sample(len(rows)).to_numpy(dtype=float)
        return np.linalg.svd(made - made.mean(axis=0), full_matrices=False)[2][:k]

    return fit


PEERS = {"diffprivlib": diffprivlib, "opendp": opendp, "smartnoise-synth": smartnoise_synth}


def main():
    peer, rows, k, epsilon, out = sys.argv[1:]
    fit = PEERS[peer](np.load(rows), int(k), float(epsilon))
    start = time.perf_counter()
    components = fit()
    seconds = time.perf_counter() - start
    np.save(out, components)
    print(json.dumps({"seconds": seconds, "version": version(peer)}))


if __name__ == "__main__":
    main()
