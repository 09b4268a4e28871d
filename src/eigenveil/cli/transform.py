"""``eigenveil transform FOLDER DATA``."""

import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError, MissingExtraError

__all__ = ["command"]

_NOTE = "note: scores are not private with respect to these rows; treat them like the rows"


@click.command("transform")
@click.argument("folder", type=PATH)
@click.argument("data")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="A new .csv, .parquet or .npy file; without it, CSV on standard output.",
)
def command(folder: Path, data: str, output: Path | None) -> None:
    """Scores of the rows of DATA under the components of a release FOLDER.

    DATA is a CSV, parquet or .npy file, or - for a CSV table on standard input. Columns are found
    by their names where the release has them. Scores are NOT private with respect to DATA.
    """
    from eigenveil.cli.rows import open_table
    from eigenveil.data.sources.columns import noted_reading
    from eigenveil.release import Release
    from eigenveil.release.projection import NO_CENTRE

    write = _writer(output)
    release = Release.load(folder)
    if release.kind != "pca":
        raise InvalidParameterError("the release holds no components: give one made by fit")
    names = release.settings["feature_names"]
    by_name = names is not None and Path(data).suffix.lower() not in (".npy", ".npz")
    noted = noted_reading(names, release.settings.get("encoding")) if by_name else {}
    if "encode" in noted:
        noted["encode"] = tuple(noted["encode"].items())
    source = open_table(data, **noted)
    scores = (release.transform(chunk) for chunk in source.tables())
    titles = [f"component_{j + 1}" for j in range(len(release.arrays["components"]))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", re.escape(NO_CENTRE))  # said below
        first = list(itertools.islice(scores, 1))  # a table that does not fit is refused here
        write(titles, itertools.chain(first, scores))
    if not release.projection.has_centre:
        say(f"note: {NO_CENTRE}", err=True)
    say(_NOTE, err=True)  # a run that fails says that alone


def _writer(output: Path | None) -> Callable[[list[str], Iterator[Any]], None]:
    """Return a writer of scores, chunk by chunk; refuse before anything is read."""
    if output is None:
        return lambda titles, scores: _csv(titles, scores, sys.stdout)
    forms: dict[str, Callable[[list[str], Iterator[Any], Path], None]] = {
        ".csv": _csv_file,
        ".parquet": _parquet,
        ".npy": _npy,
    }
    form = forms.get(output.suffix.lower())
    if form is None:
        raise InvalidParameterError(f"{output.name}: give -o a name in .csv, .parquet or .npy")
    from eigenveil.storage.places import require_new

    require_new(output, "choose a new file with -o")
    return lambda titles, scores: form(titles, scores, output)


@contextmanager
def _new(output: Path) -> Iterator[IO[bytes]]:
    """Yield a file that is there only when it is complete."""
    try:
        stream = output.open("xb")
    except OSError:
        raise InvalidParameterError(f"cannot write {output}: choose a writable place") from None
    try:
        with stream:
            yield stream
    except BaseException:
        output.unlink()
        raise


def _csv(titles: list[str], scores: Iterator[Any], stream: Any) -> None:
    stream.write(",".join(titles) + "\n")
    for chunk in scores:
        stream.writelines(",".join(map(repr, row)) + "\n" for row in chunk.tolist())


def _csv_file(titles: list[str], scores: Iterator[Any], output: Path) -> None:
    import io

    with _new(output) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
        _csv(titles, scores, text)


def _parquet(titles: list[str], scores: Iterator[Any], output: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "writing parquet needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    schema = pyarrow.schema([(title, pyarrow.float64()) for title in titles])
    with _new(output) as stream, pyarrow.parquet.ParquetWriter(stream, schema) as file:
        for chunk in scores:
            file.write_table(pyarrow.table(list(chunk.T), schema=schema))


def _npy(titles: list[str], scores: Iterator[Any], output: Path) -> None:
    import numpy as np

    with _new(output) as stream:
        np.save(stream, np.concatenate([np.empty((0, len(titles))), *scores]))
