"""From the options of a release to the public numbers that a plan is made from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import stated_budget
from eigenveil.cli.units import default_scale
from eigenveil.cli.values import per_column
from eigenveil.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from eigenveil.planning.request import Situation

__all__ = ["situation_of", "size_of"]

_COMPONENTS = 5  # planned for where none are asked for


def situation_of(ctx: click.Context, data: str | None, **options: Any) -> "Situation":
    """Return the public numbers of a release, and what is assumed about its table."""
    from eigenveil.planning.request import Situation
    from eigenveil.privacy.adjacency import Adjacency
    from eigenveil.privacy.budget import Budget

    neighbours = Adjacency.parse(options["adjacency"] or Adjacency.REPLACE_ONE)
    wanted = stated_budget(ctx)
    if options["error"] is not None and not wanted.keys() & {"epsilon", "rho"}:
        wanted["epsilon"] = 1.0  # to begin with: the question is which one it takes
    rows, columns, width = options["rows"], None, options["columns_count"]
    known = 0
    if data is not None:
        rows, columns, width, known = size_of(data, options, rows, neighbours)
    if rows is None or width is None:
        raise InvalidParameterError(
            "give DATA, or --rows and --columns-count; under add-remove neighbours always --rows"
        )
    reach = _reach(columns, width, options)
    scale = options["scale"]
    if scale is None and options["of"] == "components":
        # A table that is only counted is taken for one whose columns have names.
        scale = default_scale(width, options, named=columns is not None or data is None)
    optional = {name: options[name] for name in ("spectrum", "spread")}
    row_norm, centring = options["row_norm"], options["centring"]
    return Situation(
        task="pca" if options["of"] == "components" else "covariance",
        n=rows,
        d=width,
        k=_components(options, width, None if options["unit"] else rows),
        budget=Budget(**wanted),
        adjacency=neighbours,
        row_norm=None if row_norm == "private" else row_norm,
        private_radius=row_norm == "private",
        bounded=options["bounds"] is not None,
        per_column=isinstance(options["bounds"], dict),
        reach=reach,
        assume_centered=centring == "none",
        centring=None if centring == "none" else centring,
        private_scale=scale == "private" and known < width,
        known_scales=known,
        same_units=scale not in (None, "private"),
        variances=options["variances"],
        show_scores=bool(options["show_scores"]),
        missing=options["on_missing"] == "centre",
        unit="row" if options["unit"] is None else "person",
        **{name: value for name, value in optional.items() if value is not None},
    )


def _components(options: Mapping[str, Any], width: int, rows: int | None) -> int | None:
    """Return the number of components; a few where it is not stated, or to be found privately."""
    k = options["k"]
    if options["of"] == "covariance":
        return k if isinstance(k, int) else None
    if not isinstance(k, int):
        fewer = width if rows is None else min(width, rows)
        return max(1, min(_COMPONENTS, fewer - 1))
    return int(k)


def _reach(columns: Sequence[str] | None, width: int, options: Mapping[str, Any]) -> float | None:
    """Return what a covariance must know of ranges beside a row norm; bounds and scales are
    checked as in fit.
    """
    from eigenveil.planning.bounds import box_of, reach_of
    from eigenveil.planning.request import public_scale

    scale = public_scale(_expanded("scale", columns, width, options), width)
    bounds = _expanded("bounds", columns, width, options)
    if bounds is None:
        return None
    reach = reach_of(box_of(bounds, width), scale, centred=options["centring"] == "none")
    both = isinstance(options["row_norm"], float) and options["of"] == "covariance"
    return reach if both else None


def _expanded(
    name: str, columns: Sequence[str] | None, width: int, options: Mapping[str, Any]
) -> Any:
    """Return the numbers of an option in the order of columns, which may be counted only."""
    value = options[name]
    if columns is not None or not isinstance(value, dict):
        return per_column(f"--{name}", value, columns)
    if len(value) != width:
        raise InvalidParameterError(
            f"--{name} names {len(value)} and --columns-count says {width}: make them agree"
        )
    return per_column(f"--{name}", value, tuple(value))


def size_of(
    data: str, options: Mapping[str, Any], rows: int | None, neighbours: Any
) -> tuple[int | None, tuple[str, ...] | None, int, int]:
    """Return rows, where their number is public and was not given, and columns of a file.

    With a unit, it is persons that are counted. The last number is that of columns that are 0 or 1
    for a level.
    """
    from eigenveil.cli.progress import watched
    from eigenveil.cli.rows import ROW_OPTIONS, open_table
    from eigenveil.exact.gram import public_rows
    from eigenveil.planning.request import encoded_scale

    text: Any = "invalid" if options["on_invalid"] == "zero" else "refused"
    source = open_table(data, text=text, **{name: options[name] for name in ROW_OPTIONS})
    source = source.with_one_level_each()
    if rows is None and neighbours.count_is_public:
        with watched(source, count_is_public=options["unit"] is None) as counted:
            rows = public_rows(counted)
    known = encoded_scale(source.feature_names, source.encoding)
    encoded = 0 if known is None else int((known > 0).sum())
    return rows, source.feature_names, source.n_columns, encoded
