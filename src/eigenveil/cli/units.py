"""Whether columns are standardised where no scale is stated."""

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["default_scale"]

# Options that are stated in the units of the data, or ask for another way of treating rows.
_AS_THEY_ARE = ("bounds", "row_norm", "variances")
_STANDARDISING = ("auto", "correlation")
_SAME_KIND = 1000  # columns: so many are mostly genes, words or pixels, of one kind


def default_scale(
    n_columns: int, options: Mapping[str, Any], *, named: bool
) -> Literal["private"] | None:
    """Return the scale of components where none is stated: columns with names have units.

    Columns without names, of one kind (a thousand and more) or a single one are taken as they are,
    and so is whatever is stated about rows as they are. All of this is public.
    """
    stated = any(options.get(name) for name in _AS_THEY_ARE)
    free = not stated and options["mechanism"] in _STANDARDISING
    return "private" if named and 1 < n_columns < _SAME_KIND and free else None
