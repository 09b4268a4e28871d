"""``eigenveil demo``: the main job on data that travel with scikit-learn."""

from datetime import datetime
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil.estimators import PrivateCovariance, PrivatePCA
from eigenveil.numerics.metrics import captured_variance, relative_error
from eigenveil.privacy.ledger import Ledger
from eigenveil.release import Release

__all__ = ["command"]

EPSILON, DELTA = 1.0, 1e-6


class _Table(NamedTuple):
    name: str
    rows: NDArray[np.float64]
    bounds: tuple[Any, Any]
    n_components: int


def _tables() -> list[_Table]:
    """Pixels are 0 to 16; the tumour measurements are divided by ranges given beforehand."""
    cancer = load_breast_cancer().data
    # Generous round numbers for mean, standard error and worst of ten measurements.
    mean = [40, 50, 250, 3000, 0.25, 0.5, 0.5, 0.25, 0.5, 0.2]
    error = [4, 6, 30, 600, 0.05, 0.2, 0.5, 0.06, 0.1, 0.04]
    worst = [50, 60, 300, 5000, 0.3, 1.5, 1.5, 0.4, 1.0, 0.3]
    return [
        _Table("digits", load_digits().data, (0, 16), 5),
        _Table("breast cancer", cancer / np.array(mean + error + worst), (0, 1), 3),
    ]


@click.command("demo")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("eigenveil-demo"),
    show_default=True,
    help="Folder for the releases and ledgers of this run.",
)
def command(output: Path) -> None:
    """Release principal components and covariances of two public data sets."""
    folder = output / datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    folder.mkdir(parents=True)
    click.echo(f"Private PCA and covariance, each at epsilon = {EPSILON:g}, delta = {DELTA:g}\n")
    click.echo(f"{'table':<15}{'rows x columns':<16}{'released':<28}how good it is")
    sentences, saved, ledgers = [], [], []
    for table in _tables():
        slug = table.name.replace(" ", "-")
        ledger = Ledger.create(folder / f"{slug}.ledger", epsilon=2 * EPSILON, delta=2 * DELTA)
        truth = np.cov(table.rows.T, bias=True)
        asked: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bounds": table.bounds}
        pca = PrivatePCA(table.n_components, **asked, ledger=ledger).fit(table.rows)
        covariance = PrivateCovariance(**asked, ledger=ledger).fit(table.rows)
        share = captured_variance(pca.components_, truth)
        error = relative_error(covariance.covariance_, truth)
        size = "{:,} x {}".format(*table.rows.shape)
        noisier = ": worse than a zero matrix (1.00)" if error > 1 else ""
        for what, quality in (
            (f"{table.n_components} components", f"{share:.1%} of the variance they could capture"),
            ("covariance matrix", f"relative error {error:.2f}{noisier}"),
        ):
            click.echo(f"{table.name:<15}{size:<16}{what:<28}{quality}")
        saved.append(pca.release_.save(folder / f"{slug}-pca"))
        saved.append(covariance.release_.save(folder / f"{slug}-covariance"))
        ledgers.append(f"  {table.name}: {ledger.summary()} after {len(ledger.entries)} releases")
        sentences.append(pca.privacy_.sentence())
    click.echo("\nThe data are public, so the last column may compare with the exact answer.")
    click.echo("\nWhat is promised (first release):")
    click.echo(fill(sentences[0], 96, initial_indent="  ", subsequent_indent="  "))
    click.echo("\nLedgers:\n" + "\n".join(ledgers))
    click.echo("\nRelease folders (open report.html; check with: eigenveil verify FOLDER):")
    for place in saved:
        click.echo(f"  {place}  fingerprint {Release.fingerprint(place)[:16]}")
