"""A release in one line, and as a small table for notebooks."""

from collections.abc import Mapping
from html import escape
from typing import Any

from eigenveil.report.captured import captured_brief
from eigenveil.report.page.contents import captured_paragraph, heaviest
from eigenveil.report.page.tables import Arrays, table
from eigenveil.report.views import component_agreement, component_groups, means_alone
from eigenveil.text import percent, plural, printable

__all__ = ["card", "one_line"]

_MOST_COMPONENTS = 10


def one_line(kind: str, mechanism: str, settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return what a release holds."""
    width = settings["n_features"]
    columns = f"{width:,} {plural('column', width)}"
    if kind == "pca":
        count = len(arrays["components"])
        held = captured_brief(settings)
        what = f"{count} principal {plural('component', count)} of {columns}{held and f', {held}'}"
    elif kind == "regression" and means_alone(settings):
        count = len(arrays["coef"])
        what = f"mean or median of {count} {plural('target', count)} alone"
    elif kind == "regression":
        count = len(arrays["coef"])
        what = f"regression of {count} {plural('target', count)} on {columns}"
    else:
        what = f"covariance matrix of {columns}"
    return f"{what}, by {mechanism}"


def card(
    kind: str,
    mechanism: str,
    settings: Mapping[str, Any],
    arrays: Arrays,
    promises: Mapping[str, str],
) -> str:
    """Return a small piece of HTML for a notebook: what was released, and what is promised."""
    head = f"<strong>{escape(one_line(kind, mechanism, settings, arrays))}</strong>"
    inner = _components(settings, arrays) if kind == "pca" else ""
    promised = table([(label, printable(text)) for label, text in promises.items()])
    return (
        f'<div class="eigenveil-release">{head}{inner}<details><summary>What is promised</summary>'
        f"{promised}</details></div>"
    )


def _components(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return one row for each component: its share, and what it is made of."""
    rows = []
    name, values = component_agreement(arrays)
    for j, share in enumerate(arrays["explained_variance_ratio"][:_MOST_COMPONENTS].tolist()):
        clear = bool(arrays["distinguishable"][j] > 0)
        made_of = heaviest(settings, arrays, j) if clear else "not clear of noise"
        kept = percent(float(values[j])) if clear and values[j] >= 0 else "-"
        numbers = (f"{j + 1}", percent(share, 1), kept)
        cells = (*map(escape, numbers), made_of)  # whose names are escaped already
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(
        f"<th>{title}</th>" for title in ("component", "share", name, "largest certain loadings")
    )
    told = "".join(f"<p>{escape(one)}</p>" for one in component_groups(arrays))
    told = f"{captured_paragraph(settings, arrays)}{told}"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{told}"
