"""Draw docs/digits*.png: the first five components of the digits, four ways, at epsilon = 1.

Ordinary PCA; eigenveil, told nothing; Analyze Gauss as published (Dwork, Talwar, Thakurta, Zhang
2014, Algorithm 1), told that pixels lie between 0 and 16 and given the exact mean for free; and
diffprivlib, told ranges and the longest row, at a pure epsilon. Each has 20 releases; the picture
shows the one of median quality, for light and dark pages, wide and narrow.
`python benchmarks/picture_digits.py` also writes what each release keeps to results/picture.csv.
diffprivlib has its own environment (`bench_peers.py --install`).
"""

import argparse
import math
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_digits

from eigenveil import PrivatePCA
from eigenveil.numerics import captured_variance, top_eigenpairs
from side_by_side import report

EPSILON, DELTA, K, REPEATS = 1.0, 1e-6, 5, 20
DOCS = Path(__file__).parents[1] / "docs"
TITLE = "The same 1,797 handwritten digits, at epsilon = 1"
IMAGES = "First five components as 8 x 8 images."
NUMBER = (
    f"The number is the variance they keep, relative to ordinary PCA; mean of {REPEATS} releases."
)


class Look(NamedTuple):
    """Colours of the site, light or dark."""

    ground: str
    ink: str
    soft: str
    signal: str
    track: str
    colours: LinearSegmentedColormap


LOOKS = {
    "": Look(
        ground="white",
        ink="#16212b",
        soft="#52606d",
        signal="#17607a",
        track="#d9e0e5",
        colours=LinearSegmentedColormap.from_list("light", ["#8a5a0b", "#f7f7f5", "#17607a"]),
    ),
    "-dark": Look(
        ground="#0f151a",
        ink="#e9eef2",
        soft="#a9b7c3",
        signal="#6fc3da",
        track="#33414c",
        colours=LinearSegmentedColormap.from_list("dark", ["#e0b35c", "#1d262e", "#6fc3da"]),
    ),
}
ROWS = (
    ("scikit-learn PCA", "not private"),
    ("eigenveil", "private at delta = 1e-6; told nothing\nabout the pixels"),
    (
        "Analyze Gauss, 2014",
        "private at delta = 1e-6, with the published noise;\ntold 0 to 16 and the exact mean",
    ),
    ("diffprivlib 0.6", "private at a pure epsilon; told 0 to 16\nand the longest row"),
)


def published(rows, seed):
    """Components of the second moment with N(0, s^2) on its upper triangle."""
    bound = 8 * math.sqrt(rows.shape[1])  # from the middle of the ranges to their corners
    sigma = bound**2 * math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON
    upper = np.triu(np.random.default_rng(seed).standard_normal((rows.shape[1],) * 2) * sigma)
    centred = rows - rows.mean(axis=0)
    centred *= np.minimum(1, bound / np.linalg.norm(centred, axis=1))[:, None]
    return top_eigenpairs(centred.T @ centred + upper + np.triu(upper, 1).T, K)[1]


THEIRS = """
import sys, warnings
import numpy as np
from diffprivlib.models import PCA
warnings.simplefilter("ignore")
rows, k, epsilon, norm, repeats = np.load(sys.argv[1]), *map(float, sys.argv[3:])
box = ([-8] * rows.shape[1], [8] * rows.shape[1])
fits = (PCA(int(k), epsilon=epsilon, bounds=box, data_norm=norm, random_state=seed)
        for seed in range(int(repeats)))
np.save(sys.argv[2], [fit.fit(rows - 8).components_ for fit in fits])
"""


def diffprivlib(python, rows):
    """All releases of diffprivlib, told ranges and the longest row, in its own environment."""
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/rows.npy", rows)
        told = (K, EPSILON, 8 * math.sqrt(rows.shape[1]), REPEATS)
        words = [f"{place}/rows.npy", f"{place}/out.npy", *map(str, told)]
        subprocess.run([str(python), "-c", THEIRS, *words], check=True)
        return list(np.load(f"{place}/out.npy"))


def ours(rows, seed):
    """Components as by default."""
    return PrivatePCA(K, epsilon=EPSILON, delta=DELTA, random_state=seed).fit(rows).components_


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"))
    python = parser.parse_args().environments.absolute() / "diffprivlib" / "bin" / "python"
    rows = load_digits().data
    truth = np.cov(rows.T, bias=True)
    exact = top_eigenpairs(truth, K)[1]
    shown, kept, results = [exact], [(1.0, 1.0, 1.0)], []
    sides = {
        "eigenveil": [ours(rows, seed) for seed in range(REPEATS)],
        "published": [published(rows, seed) for seed in range(REPEATS)],
        "diffprivlib": diffprivlib(python, rows),
    }
    for side, runs in sides.items():
        values = np.array([captured_variance(run, truth) for run in runs])
        shown.append(runs[int(np.argsort(values)[REPEATS // 2])])
        kept.append((float(values.mean()), float(values.min()), float(values.max())))
        results += [
            {"side": side, "seed": seed, "captured": float(value)}
            for seed, value in enumerate(values)
        ]
    report("picture", results)
    turned = [_turned(components, exact) for components in shown]
    for suffix, look in LOOKS.items():
        _draw(turned, kept, look, f"digits{suffix}.png")
        _draw_narrow(turned, kept, look, f"digits-narrow{suffix}.png")


def _turned(components, exact):
    """The sign of a component is arbitrary: as the exact one has it."""
    signs = np.sign(np.einsum("ij,ij->i", components, exact))
    return components * np.where(signs == 0, 1, signs)[:, None]


def _draw(shown, kept, look, name):
    """Draw one row for each side: its name, its components, and what they keep."""
    figure = plt.figure(figsize=(8.6, 5.2), dpi=110, facecolor=look.ground)
    figure.text(0.02, 0.96, TITLE, size=13, weight="bold", color=look.ink)
    figure.text(0.02, 0.915, f"{IMAGES} {NUMBER}", size=8.5, color=look.soft)
    for row, (components, share) in enumerate(zip(shown, kept, strict=True)):
        bottom = 0.69 - 0.223 * row
        figure.text(0.02, bottom + 0.118, ROWS[row][0], size=10.5, weight="bold", color=look.ink)
        figure.text(0.02, bottom + 0.1, ROWS[row][1], size=8, color=look.soft, va="top")
        for i, component in enumerate(components):
            _image(figure, (0.34 + 0.098 * i, bottom, 0.09, 0.197), component, look)
        _kept(figure, (0.855, bottom + 0.08, 0.125, 0.014), share, look, (0.027, 0.035), 15)
    _save(figure, name)


def _draw_narrow(shown, kept, look, name):
    """Draw the same for a phone: the components of a side lie below its name."""
    figure = plt.figure(figsize=(3.9, 7.0), dpi=160, facecolor=look.ground)
    figure.text(
        0.01,
        0.975,
        TITLE.replace(", at", ",\nat"),
        size=12,
        weight="bold",
        color=look.ink,
        va="top",
    )
    words = "\n".join((IMAGES, NUMBER.replace("keep, ", "keep,\n")))
    figure.text(0.01, 0.912, words, size=8, color=look.soft, va="top", linespacing=1.4)
    for row, (components, share) in enumerate(zip(shown, kept, strict=True)):
        top = 0.815 - 0.207 * row
        figure.text(0.01, top, ROWS[row][0], size=10.5, weight="bold", color=look.ink, va="top")
        figure.text(0.01, top - 0.026, ROWS[row][1], size=7.5, color=look.soft, va="top")
        for i, component in enumerate(components):
            _image(figure, (0.01 + 0.199 * i, top - 0.17, 0.184, 0.1025), component, look)
        _kept(figure, (0.7, top - 0.03, 0.29, 0.009), share, look, (0.015, 0.022), 13)
    _save(figure, name)


def _image(figure, place, component, look):
    axes = figure.add_axes(place)
    largest = np.abs(component).max()
    axes.imshow(component.reshape(8, 8), cmap=look.colours, vmin=-largest, vmax=largest)
    axes.set(xticks=[], yticks=[])
    for edge in axes.spines.values():
        edge.set_color(look.track)


def _kept(figure, place, share, look, apart, size):
    """Draw a share as a number, a bar and its span."""
    mean, low, high = share
    left, bottom = place[:2]
    number = f"{mean:.0%}".replace("%", " %")
    figure.text(left, bottom + apart[0], number, size=size, weight="bold", color=look.ink)
    bar = figure.add_axes(place)
    bar.barh([0], [1], color=look.track)
    bar.barh([0], [mean], color=look.signal)
    bar.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    bar.axis("off")
    span = "by definition" if low == high else f"from {low * 100:.0f} to {high * 100:.0f} %"
    figure.text(left, bottom - apart[1], span, size=size / 2 + 0.5, color=look.soft)


def _save(figure, name):
    figure.savefig(DOCS / name, pil_kwargs={"optimize": True}, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
