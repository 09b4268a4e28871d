"""``eigenveil demo`` and ``eigenveil sample``: try the main job on public and made-up data."""

from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say
from eigenveil.cli.progress import stoppable
from eigenveil.exceptions import InvalidParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from eigenveil.estimators.covariance import PrivateCovariance
    from eigenveil.estimators.pca import PrivatePCA


EPSILON, DELTA = 1.0, 1e-6


class _Table(NamedTuple):
    name: str
    rows: "NDArray[np.float64]"
    n_components: int
    image: tuple[int, int] | None = None  # where columns are pixels


def _tables() -> list[_Table]:
    """Pixels as they are; tumour measurements divided by ranges given beforehand."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_digits

    cancer = load_breast_cancer().data
    # Generous round numbers for mean, standard error and worst of ten measurements.
    mean = [40, 50, 250, 3000, 0.25, 0.5, 0.5, 0.25, 0.5, 0.2]
    error = [4, 6, 30, 600, 0.05, 0.2, 0.5, 0.06, 0.1, 0.04]
    worst = [50, 60, 300, 5000, 0.3, 1.5, 1.5, 0.4, 1.0, 0.3]
    return [
        _Table("digits", load_digits().data, 5, (8, 8)),
        _Table("breast cancer", cancer / np.array(mean + error + worst), 3),
    ]


@click.command("demo")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("eigenveil-demo"),
    show_default=True,
    help="Folder for the releases and ledgers of this run.",
)
def demo(output: Path) -> None:
    """Release principal components and covariances of two public data sets."""
    folder = output / datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    try:
        folder.mkdir(parents=True)
    except OSError:
        raise InvalidParameterError(f"cannot write to {output}: choose another --output") from None
    with stoppable(f"the ledgers of the demo are in {folder}"):
        _release_all(folder)


def _release_all(folder: Path) -> None:
    """Release both tables, and say how good the releases are."""
    from eigenveil.estimators.covariance import PrivateCovariance
    from eigenveil.estimators.pca import PrivatePCA
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.release.artefact import Release
    from eigenveil.report.views import captured_sentence

    say(f"Private PCA and covariance, each at epsilon = {EPSILON:g}, delta = {DELTA:g}", "")
    say(f"{'table':<15}{'rows x columns':<16}{'released':<20}how good it is")
    sentences, saved, ledgers, held = [], [], [], []
    for table in _tables():
        slug = table.name.replace(" ", "-")
        ledger = Ledger.create(folder / f"{slug}.ledger", epsilon=2 * EPSILON, delta=DELTA)
        asked: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "ledger": ledger}
        pca = PrivatePCA(table.n_components, **asked).fit(table.rows)  # nothing needs a bound
        covariance = PrivateCovariance(**asked, scale="same").fit(table.rows)  # of one unit
        size = "{:,} x {}".format(*table.rows.shape)
        for what, quality in _qualities(table, pca, covariance):
            say(f"{table.name:<15}{size:<16}{what:<20}{quality}")
        for name, release in (("pca", pca.release_), ("covariance", covariance.release_)):
            title = f"{table.name.capitalize()}, {name}"
            told = release.described(title=title, purpose="demonstration", image=table.image)
            saved.append(told.save(folder / f"{slug}-{name}"))
        ledgers.append(f"  {table.name}: {ledger.summary()} after {len(ledger.entries)} releases")
        sentences.append(pca.privacy_.sentence())
        if sentence := captured_sentence(pca.release_.settings, pca.release_.arrays):
            held.append(f"{table.name.capitalize()}: {sentence}")
    say("", "The data are public, so the last column may compare with the exact answer.")
    if held:
        say("", "What the releases say of their own components, by private numbers:")
        for sentence in held:
            say(*wrap(sentence, 96, initial_indent="  ", subsequent_indent="  "))
    say("", "What is promised (first release):")
    say(*wrap(sentences[0], 96, initial_indent="  ", subsequent_indent="  "))
    say("", "Ledgers (Gaussian releases compose to less than the sum of their epsilons):")
    say(*ledgers)
    say("", "Release folders (open report.html; check with: eigenveil verify FOLDER):")
    for place in saved:
        say(f"  {place}  fingerprint {Release.fingerprint(place)[:16]}")


def _qualities(
    table: _Table, pca: "PrivatePCA", covariance: "PrivateCovariance"
) -> list[tuple[str, str]]:
    """Compare with the exact answer, which public data allow."""
    import numpy as np

    from eigenveil.numerics.metrics import captured_variance, relative_error

    truth = np.cov(table.rows.T, bias=True)
    k = table.n_components
    share = captured_variance(pca.components_, truth)
    best = float(np.sort(np.linalg.eigvalsh(truth))[-k:].sum())
    chance = k / len(truth) * float(np.trace(truth)) / best
    error = relative_error(covariance.covariance_, truth)
    clear = int(pca.distinguishable_.sum())
    standing = f"{clear} {'stands' if clear == 1 else 'stand'} out"
    found = f"{share:.0%} of the variance within reach (chance: {chance:.0%}), {standing}"
    return [
        (f"{k} components", found),
        ("covariance matrix", f"relative error {error:.2f} (a zero matrix has 1.00)"),
    ]


@click.command("sample")
@click.argument("file", type=PATH)
@click.option(
    "--rows",
    type=click.IntRange(1, 1_000_000),
    default=20_000,
    show_default=True,
    help="Number of admissions.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    help="Seed. Another one makes another table of the same kind.",
)
def sample(file: Path, rows: int, seed: int) -> None:
    """Write a made-up hospital table to try things on: FILE is a new CSV file.

    Fifteen columns with an id, a date, categories, missing cells and values such as <0.5. The same
    rows and seed give the same file. Nobody in it exists.
    """
    columns = write_sample(file, rows, seed)
    say(f"{file}: {rows:,} made-up admissions in {columns} columns; nobody in it exists")


def write_sample(file: Path, rows: int, seed: int) -> int:
    """Write the made-up table to a new CSV file; return its number of columns."""
    import csv
    import io

    from eigenveil.datasets.patients import Patients
    from eigenveil.storage.paths import require_new, write_new

    if file.suffix.lower() != ".csv":
        raise InvalidParameterError(f"{file.name}: give a name in .csv")
    require_new(file)
    table = Patients(rows, seed)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(table.records())
    write_new({file: text.getvalue().encode("utf-8")})
    return len(table.names)
