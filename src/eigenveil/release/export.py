"""A release in the formats of other tools; each carries the promise in words.

===========  ======================================================  ======================
format       content                                                 where the promise is
===========  ======================================================  ======================
``csv``      one row per column of the data: its name, mean, scale   ``PATH.statement.txt``
             and loadings PC1, PC2, ...; of a covariance the matrix
``parquet``  the same                                                metadata of the schema
``plink``    a table of weights for ``plink2 --score``               ``PATH.statement.txt``
===========  ======================================================  ======================

Exports are post-processing and cost nothing; they are not verified afterwards, so hand out the
release itself too.
"""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError
from eigenveil.messages import Phrase
from eigenveil.release.artefact import Release
from eigenveil.release.projection import Projection
from eigenveil.storage.paths import require_new, write_new
from eigenveil.text import is_formula, printable

_FORMAT = Phrase(python="format", shell="--format", file="the format")
Files = dict[str, bytes]  # by what is appended to the path
_TOO_LARGE = "the weights of a column are too large for this format: export parquet instead"


def export(
    release: Release,
    path: str | Path,
    format: str | None = None,
    *,
    alleles: Sequence[str] | None = None,
) -> list[Path]:
    """Write a release in another format, and return the files that were written.

    Parameters
    ----------
    release : Release
        Of components; of a covariance as ``csv`` and ``parquet`` only.
    path : path
        A new file.
    format : {"csv", "parquet", "plink"}, optional
        By default what the path ends in.
    alleles : sequence of str, optional
        For ``plink``: the allele that each column of the data counts, in their order.

    """
    path = Path(path)
    name = path.suffix.lower().removeprefix(".") if format is None else format
    if name not in FORMATS:
        raise InvalidParameterError(_FORMAT, f" must be one of: {', '.join(FORMATS)}")
    if alleles is not None and name != "plink":
        raise InvalidParameterError("alleles are for the plink format: leave them out")
    files = _plink(release, alleles) if name == "plink" else FORMATS[name](release)
    places = {Path(f"{path}{suffix}"): data for suffix, data in files.items()}
    for place in places:
        require_new(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(places)
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None
    return list(places)


def _csv(release: Release) -> Files:
    header, (names, *columns) = _columns(release)
    spelled = [printable(name) for name in names]
    if any(map(is_formula, names)):
        raise InvalidDataError(
            "a column's name starts with =, +, - or @, which a spreadsheet takes for a formula: "
            "export parquet instead"
        )
    if len(set(spelled)) < len(set(names)):
        raise InvalidDataError(
            "two columns have the same name once control characters are spelled out: export "
            "parquet instead"
        )
    titles = [printable(title) for title in header]
    return {".statement.txt": _statement(release), "": _text(titles, [spelled, *columns], ",")}


def _parquet(release: Release) -> Files:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "writing parquet needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    header, columns = _columns(release)
    table = pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names=header)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(
        table.replace_schema_metadata({"eigenveil": release.statement()}), buffer
    )
    return {"": buffer.getvalue()}


def _plink(release: Release, alleles: Sequence[str] | None = None) -> Files:
    """Return weights of allele counts; plink2 knows no mean: it is in the statement."""
    projection = release.projection
    ids = release.feature_names
    if ids is None:
        raise InvalidDataError(
            "plink2 finds variants by their ids: fit a table whose columns have names"
        )
    counted = ["."] * len(ids) if alleles is None else [str(allele) for allele in alleles]
    if len(counted) != len(ids):
        raise InvalidParameterError("give one allele for each column of the data")
    for name in (*ids, *counted):
        if not name or name.startswith("#") or " " in name or not name.isprintable():
            raise InvalidDataError(
                "plink2 takes no ids or alleles with spaces or control characters, or empty ones"
            )
    weights = _weights(projection)
    pcs = _pcs(release)
    with np.errstate(over="ignore", invalid="ignore"):
        constants = list(zip(pcs, -(weights @ projection.origin), strict=True))
    if not all(np.isfinite(constant) for _, constant in constants):
        raise InvalidDataError(_TOO_LARGE)
    usage = (
        "Weights of allele counts. With FILE for this table and DATA for the genotypes:\n"
        f"  plink2 --pfile DATA --score FILE 1 2 header-read cols=+scoresums "
        f"--score-col-nums 3-{len(pcs) + 2}\n"
        "gives sums of allele counts times weights; scores are these sums plus\n"
        + "".join(f"  {pc} {float(constant)!r}\n" for pc, constant in constants)
    )
    return {
        ".statement.txt": _statement(release) + b"\n" + usage.encode(),
        "": _text(["#ID", "A1", *pcs], [ids, counted, *weights], "\t"),
    }


FORMATS: dict[str, Callable[[Release], Files]] = {
    "csv": _csv,
    "parquet": _parquet,
    "plink": _plink,
}


def _columns(release: Release) -> tuple[list[str], list[Any]]:
    """Return names and columns of the table of a release: one row per column of the data."""
    names = release.feature_names
    if names is None:
        names = tuple(f"x{j}" for j in range(release.settings["n_features"]))
    if release.kind == "covariance":
        title = "feature"
        while title in names:
            title += "_"
        return [title, *names], [list(names), *release.arrays["covariance"].T]
    arrays = release.arrays
    if release.kind == "regression":
        targets = release.settings.get("target_names") or [
            f"y{i}" for i in range(len(arrays["coef"]))
        ]
        titles, columns = ["feature"], [[*names, "(intercept)"]]  # type: tuple[list[str], list[Any]]
        for i, target in enumerate(targets):
            titles += [target, f"{target}_low", f"{target}_high"]
            whole = np.append(arrays["coef"][i], arrays["intercept"][i])
            columns += [whole, *arrays["interval"][i].T]
        return titles, columns
    return (
        ["feature", "mean", "scale", *_pcs(release)],
        [list(names), arrays["mean"], arrays["scale"], *arrays["components"]],
    )


def _weights(projection: Projection) -> NDArray[np.float64]:
    """Return what rows about the mean are multiplied by, where numbers can hold it."""
    with np.errstate(over="ignore"):
        weights = projection.weights
    if not np.isfinite(weights).all():
        raise InvalidDataError(_TOO_LARGE)
    return weights


def _pcs(release: Release) -> list[str]:
    return [f"PC{i + 1}" for i in range(len(release.arrays["components"]))]


def _statement(release: Release) -> bytes:
    return f"{release.statement()}\n".encode()


def _text(header: Sequence[str], columns: Sequence[Any], delimiter: str) -> bytes:
    """Numbers are written with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    writer.writerows(zip(*lists, strict=True))
    return text.getvalue().encode()
