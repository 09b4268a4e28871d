"""A release in the formats of other tools; each carries the promise in words.

===========  ======================================================  ======================
format       content                                                 where the promise is
===========  ======================================================  ======================
``csv``      one row per column of the data: its name, mean, scale   ``PATH.statement.txt``
             and loadings PC1, PC2, ...; of a covariance the matrix
``parquet``  the same                                                metadata of the schema
``onnx``     the map from rows to scores, in double precision        documentation string
``plink``    a table of weights for ``plink2 --score``               ``PATH.statement.txt``
===========  ======================================================  ======================

`annotate` writes loadings into an AnnData object. Exports are post-processing and cost nothing;
they are not verified afterwards, so hand out the release itself too.
"""

import csv
import io
import json
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
    format : {"csv", "parquet", "onnx", "plink"}, optional
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


def annotate(adata: Any, release: Release) -> None:
    """Write loadings into an AnnData object where scanpy keeps them.

    ``adata.varm["PCs"]`` holds the loadings, ``adata.uns["pca"]`` the variances, and under
    ``"eigenveil"`` the promise, and mean and scale in the order of the variables. Variables are
    matched by name; those that the release does not know have loadings of zero. Scores,
    ``(X - mean) / scale @ PCs``, would not be private, and are not computed.
    """
    projection = release.projection
    known = _features(release, "AnnData variables are matched by name")
    position = {str(name): j for j, name in enumerate(adata.var_names)}
    if len(position) < adata.n_vars:
        raise InvalidDataError("two variables have the same name: call var_names_make_unique()")
    if absent := sum(name not in position for name in known):
        are = "is no variable" if absent == 1 else "are no variables"
        raise InvalidDataError(
            f"{absent} of the {len(known)} columns of the release {are} of adata: check var_names"
        )
    places = [position[name] for name in known]
    loadings = np.zeros((adata.n_vars, len(projection.components)))
    mean, scale = np.zeros(adata.n_vars), np.ones(adata.n_vars)
    loadings[places] = projection.components.T
    mean[places], scale[places] = projection.origin, projection.scale
    adata.varm["PCs"] = loadings
    adata.uns["pca"] = {
        "params": {
            "zero_center": not release.settings["assume_centered"],
            "use_highly_variable": False,
        },
        "variance": release.arrays["explained_variance"].copy(),
        "variance_ratio": release.arrays["explained_variance_ratio"].copy(),
        "eigenveil": {
            "statement": release.statement(),
            "mechanism": release.mechanism,
            "mean": mean,
            "scale": scale,
        },
    }


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


def _onnx(release: Release) -> Files:
    """Return rows about the mean times weights: subtracting first loses no digits to a far mean."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("ONNX needs onnx: pip install 'eigenveil[onnx]'") from None
    projection = release.projection
    k, d = projection.components.shape
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    nodes, rows = [], "rows"
    if projection.on_missing == "centre" and projection.has_centre:
        nodes.append(helper.make_node("IsNaN", ["rows"], ["missing"]))
        nodes.append(helper.make_node("Where", ["missing", "mean", "rows"], ["filled"]))
        rows = "filled"
    nodes.append(helper.make_node("Sub", [rows, "mean"], ["centred"]))
    nodes.append(helper.make_node("MatMul", ["centred", "weights"], ["products"]))
    # Zero times what is not finite is NaN: one such product spoils its row, as in `transform`.
    nodes.append(helper.make_node("Mul", ["products", "zero"], ["spoilt"]))
    nodes.append(helper.make_node("ReduceSum", ["spoilt", "columns"], ["spoilt_rows"]))
    nodes.append(helper.make_node("Add", ["products", "spoilt_rows"], ["scores"]))
    weights = np.ascontiguousarray(_weights(projection).T)
    graph = helper.make_graph(
        nodes,
        "eigenveil",
        [helper.make_tensor_value_info("rows", double, ["n", d])],
        [helper.make_tensor_value_info("scores", double, ["n", k])],
        [
            onnx.numpy_helper.from_array(projection.origin, "mean"),
            onnx.numpy_helper.from_array(weights, "weights"),
            onnx.numpy_helper.from_array(np.zeros(1), "zero"),
            onnx.numpy_helper.from_array(np.array([1], dtype=np.int64), "columns"),
        ],
    )
    model = helper.make_model(
        graph,
        producer_name="eigenveil",
        producer_version=release.library,
        doc_string=release.statement(),
        # Old enough for the runtimes in use.
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    if release.feature_names is not None:
        helper.set_model_props(model, {"feature_names": json.dumps(release.feature_names)})
    onnx.checker.check_model(model)
    return {"": model.SerializeToString()}


def _plink(release: Release, alleles: Sequence[str] | None = None) -> Files:
    """Return weights of allele counts; plink2 knows no mean: it is in the statement."""
    projection = release.projection
    ids = _features(release, "plink2 finds variants by their ids")
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
    "onnx": _onnx,
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


def _features(release: Release, reason: str) -> tuple[str, ...]:
    names = release.feature_names
    if names is None:
        raise InvalidDataError(f"{reason}: fit a table whose columns have names")
    return names


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
