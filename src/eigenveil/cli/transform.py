"""``eigenveil transform FOLDER DATA``."""

import csv
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import click

from eigenveil.cli.options import AS_WRITTEN, PATH, with_options
from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from eigenveil.release.artefact import Release


_NOTE = "note: scores are not private with respect to these rows; treat them like the rows"


class _Scored(NamedTuple):
    """Scores of some rows, and what the kept column holds of them."""

    scores: "NDArray[np.float64]"
    kept: Sequence[Hashable] | None


@click.command("transform")
@click.argument("folder", type=PATH)
@click.argument("data")
@click.option(
    "--keep", metavar="COLUMN", help="Column of DATA, such as an id, to copy next to the scores."
)
@with_options(*AS_WRITTEN)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="New .csv, .parquet or .npy file. Without it, CSV goes to standard output.",
)
def transform(
    folder: Path, data: str, keep: str | None, output: Path | None, **written: Any
) -> None:
    """Compute scores of the rows of DATA under the components of a release FOLDER.

    DATA is a CSV, parquet or .npy file, or - for a CSV table on standard input. Columns are found
    by their names where the release has them; give --censored, --as-number, --decimal and
    --encoding as for the release.
    Scores are NOT private with respect to DATA.
    """
    from eigenveil.release.artefact import Release
    from eigenveil.release.projection import NO_CENTRE

    write = _writer(output, keep)
    release = Release.load(folder)
    if release.kind != "pca":
        raise InvalidParameterError("the release holds no components: give one made by fit")
    scores = _scores(release, data, keep, written)
    titles = [f"component_{j + 1}" for j in range(len(release.arrays["components"]))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", re.escape(NO_CENTRE))  # said below
        first = list(itertools.islice(scores, 1))  # a table that does not fit is refused here
        write(titles if keep is None else [keep, *titles], itertools.chain(first, scores))
    if not release.projection.has_centre:
        say(f"note: {NO_CENTRE}", err=True)
    say(_NOTE, err=True)  # a run that fails says that alone


def _scores(
    release: "Release", data: str, keep: str | None, written: dict[str, Any]
) -> Iterator[_Scored]:
    """Yield scores of a table, chunk by chunk; ``written`` says how its cells are."""
    from eigenveil.cli.rows import open_table
    from eigenveil.rows.base import tables
    from eigenveil.rows.columns import noted_reading
    from eigenveil.rows.units import LabelledRows

    names = release.settings["feature_names"]
    nameless = Path(data).suffix.lower() in (".npy", ".npz")
    noted: dict[str, Any] = {**written}
    if names is not None and not nameless:
        noted |= noted_reading(names, release.settings.get("encoding"))
        noted["encode"] = tuple(noted.get("encode", {}).items())
    if keep is None:
        for chunk in tables(open_table(data, **noted)):
            yield _Scored(release.transform(chunk), None)
        return
    if data == "-" or nameless:
        raise InvalidParameterError(
            "--keep names a column of a file: save the table as CSV or parquet first"
        )
    if names is not None and keep in names:
        raise InvalidParameterError(
            f"column {keep!r} is one that scores are made of: --keep copies another one"
        )
    rows = cast("LabelledRows", open_table(data, unit=keep, **noted).plain)  # as a column was named
    for chunk, kept in rows.labelled_chunks():
        yield _Scored(release.transform(chunk), kept)


def _writer(
    output: Path | None, keep: str | None
) -> Callable[[list[str], Iterator[_Scored]], None]:
    """Return a writer of scores, chunk by chunk; refuse before anything is read."""
    if output is None:
        return lambda titles, scores: _csv(titles, scores, sys.stdout)
    forms: dict[str, Callable[[list[str], Iterator[_Scored], Path], None]] = {
        ".csv": _csv_file,
        ".parquet": _parquet,
        ".npy": _npy,
    }
    form = forms.get(output.suffix.lower())
    if form is None:
        raise InvalidParameterError(f"{output.name}: give -o a name in .csv, .parquet or .npy")
    if form is _npy and keep is not None:
        raise InvalidParameterError(
            f"{output.name} would hold numbers alone: with --keep, give -o a name in .csv or "
            ".parquet"
        )
    from eigenveil.storage.paths import require_new

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


def _csv(titles: list[str], scores: Iterator[_Scored], stream: Any) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(titles)
    for chunk, kept in scores:
        rows = chunk.tolist()
        if kept is None:
            stream.writelines(",".join(map(repr, row)) + "\n" for row in rows)
        else:
            writer.writerows([label, *row] for label, row in zip(kept, rows, strict=True))


def _csv_file(titles: list[str], scores: Iterator[_Scored], output: Path) -> None:
    import io

    with _new(output) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
        _csv(titles, scores, text)


def _parquet(titles: list[str], scores: Iterator[_Scored], output: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "writing parquet needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    first = list(itertools.islice(scores, 1))
    kinds = [pyarrow.float64()] * len(titles)
    if first and first[0].kept is not None:
        kinds[0] = pyarrow.array(first[0].kept).type
    schema = pyarrow.schema(list(zip(titles, kinds, strict=True)))
    with _new(output) as stream, pyarrow.parquet.ParquetWriter(stream, schema) as file:
        for chunk, kept in itertools.chain(first, scores):
            columns = [*([] if kept is None else [kept]), *chunk.T]
            file.write_table(pyarrow.table(columns, schema=schema))


def _npy(titles: list[str], scores: Iterator[_Scored], output: Path) -> None:
    import numpy as np

    with _new(output) as stream:
        chunks = [chunk.scores for chunk in scores]
        np.save(stream, np.concatenate([np.empty((0, len(titles))), *chunks]))
