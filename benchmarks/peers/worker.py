"""Fits of one peer, in its own environment: ``worker.py PEER SETTINGS.json LIMIT``.

Settings name files of rows and for components, k, a pure epsilon, a bound on the length of rows,
ranges of all columns if rows are not centred, and how often to fit. Prints the median of seconds of
the processor, imports left out, and the version of the peer; the system ends it at the limit.
"""

import json
import resource
import statistics
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
BINS = 16


def diffprivlib(rows, k, epsilon, row_norm, ranges):
    from diffprivlib.models import PCA

    told = {"centered": True}
    if ranges is not None:
        told = {"bounds": tuple([end] * rows.shape[1] for end in ranges)}
    return lambda seed: PCA(k, epsilon=epsilon, data_norm=row_norm, random_state=seed, **told).fit(
        rows
    )


def opendp(rows, k, epsilon, row_norm, ranges):
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "idealized-numerics", "honest-but-curious")
    n, d = rows.shape
    return lambda seed: dp.sklearn.decomposition.PCA(
        epsilon=epsilon, row_norm=row_norm, n_samples=n, n_features=d, n_components=k
    ).fit(rows)


def smartnoise_synth(rows, k, epsilon, row_norm, ranges):
    """Components of made-up rows in bins, by a synthesizer that has a pure epsilon."""
    import pandas as pd
    from sklearn.decomposition import PCA
    from snsynth import Synthesizer

    edges = np.linspace(*(ranges or (-row_norm, row_norm)), BINS + 1)[1:-1]
    frame = pd.DataFrame(np.digitize(rows, edges), columns=[f"c{j}" for j in range(rows.shape[1])])

    def fit(seed):
        model = Synthesizer.create("mwem", epsilon=epsilon, split_factor=2)
        model.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
        return PCA(k).fit(model.sample(len(rows)).to_numpy(dtype=float))

    return fit


PEERS = {"diffprivlib": diffprivlib, "opendp": opendp, "smartnoise-synth": smartnoise_synth}


def main():
    peer, path, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
    settings = json.loads(Path(path).read_text("utf-8"))
    rows, out, repeats = (settings.pop(name) for name in ("rows", "out", "repeats"))
    fit = PEERS[peer](np.load(rows), **settings)
    seconds, components = [], []
    for seed in range(repeats):
        start = time.process_time()
        components.append(np.asarray(fit(seed).components_)[: settings["k"]])
        seconds.append(time.process_time() - start)
    np.save(out, components)
    print(json.dumps({"seconds": statistics.median(seconds), "version": version(peer)}))


if __name__ == "__main__":
    main()
