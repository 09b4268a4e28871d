"""The release at a glance: five questions with one answer each, and a card for notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from eigenveil.privacy.balance import Balance
from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.report.page.contents import captured_paragraph, heaviest
from eigenveil.report.page.owners import UNITS, counted_as
from eigenveil.report.page.regression import coefficient_tile
from eigenveil.report.page.tables import Arrays, table, unbroken
from eigenveil.report.views import (
    Spectrum,
    captured_brief,
    component_agreement,
    component_groups,
    estimand,
    hidden_variances,
    left_out,
    means_alone,
    standardised,
    why_left_out,
)
from eigenveil.text import listed, percent, plural, printable

_WHO = {
    "one row": "Every row",
    "all rows of one group": "Every group, with all of its rows",
    "all rows of one person": "Every person, with all of their rows",
}


def answers(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Arrays,
    noisy: Spectrum | None,
    owners: Sequence[Contribution],
    balance: Balance | None,
) -> str:
    """Return the five questions and their answers."""
    left = f"The ledger of this table has {balance.brief()}." if balance else _NO_LEDGER
    if owners:
        left = "Each owner keeps a ledger of its own."
    facts = (
        ("What is it?", _what(guarantee, document, arrays, owners)),
        ("Who is protected?", _who(guarantee)),
        ("How good is it?", _quality(document, arrays, noisy, owners)),
        ("May it be shared?", _shared(guarantee)),
        ("What is left?", escape(left)),
    )
    rows = "".join(f"<div><dt>{asked}</dt><dd>{told}</dd></div>" for asked, told in facts)
    return f'<dl class="answers card">{rows}</dl>'


_NO_LEDGER = "No ledger recorded this release: keep count of releases from this table yourself."


def _what(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Arrays,
    owners: Sequence[Contribution],
) -> str:
    settings = document["settings"]
    every = settings["n_features"]
    width, out = _counted(every, "column"), left_out(settings, arrays)
    without = aim = ""
    if out:
        width = f"{every - len(out):,} of {width}"
        why = why_left_out(arrays)
        without = f" <b>Left out ({why}): {escape(listed(out))}.</b>"
    match document["kind"]:
        case "pca":
            count = _counted(len(arrays["components"]), "principal component")
            what = f"{count} of {width}"
            if standardised(settings):
                aim = (
                    " They are components of standardised columns (correlations), of rows pulled "
                    "in to the released limits."
                )
                hidden = hidden_variances(settings)
                aim += f" {escape(hidden[0].upper() + hidden[1:])}." if hidden else ""
        case "regression" if means_alone(settings):
            what = f"A mean or median of {_counted(len(arrays['coef']), 'target')} alone"
        case "regression":
            what = f"A regression of {_counted(len(arrays['coef']), 'target')} on {width}"
        case _:
            what = f"The covariance matrix of {width}"
            if not owners:
                aim = f" It estimates {escape(estimand(settings))}."
    of_rows = UNITS["one row" if guarantee.arrivals else guarantee.unit]
    units = counted_as(owners) if owners else of_rows
    rows = settings["n_rows"]
    size = f"a private number of {units}" if rows is None else f"{rows:,} {units}"
    if drawn := settings.get("drawn_rows"):
        size = f"{drawn:,} {units} drawn at random from {size}"
    where = f" of {_counted(len(owners), 'owner')}" if owners else ""
    purpose = settings.get("about", {}).get("purpose")
    use = f" For: {escape(purpose)}." if purpose else ""
    return f"<b>{what}</b>, from {escape(size)}{where}.{without}{aim}{use}"


def _who(guarantee: Guarantee) -> str:
    if guarantee.simulated:
        return "<b>Nobody</b>: the noise came from a seed and can be removed."
    who = _WHO[guarantee.unit]
    if guarantee.arrivals is not None:
        used = f"{guarantee.arrivals} {plural('arrival', guarantee.arrivals)}"
        who = f"Every {guarantee.protects.name}, in at most {used}"
    if guarantee.honest is not None:
        who += f", if {guarantee.honest.condition()}"
    odds, budget = unbroken(guarantee.odds()), str(guarantee.budget)
    return f"<b>{escape(who)}</b>. {escape(odds)} ({escape(budget)})."


def _quality(
    document: Mapping[str, Any],
    arrays: Arrays,
    noisy: Spectrum | None,
    owners: Sequence[Contribution],
) -> str:
    if document["kind"] == "pca":
        return _of_components(arrays)
    if document["kind"] == "regression":
        return coefficient_tile(document["settings"], arrays)
    if noisy is None and owners:
        return "Noise differs from owner to owner: no one level tells it from the records."
    d = document["settings"]["n_features"]
    clear = 0 if noisy is None else int(noisy.clear.sum())
    size = d if noisy is None else len(noisy.clear)
    are = "is" if clear == 1 else "are"
    return f"<b>{clear} of {_counted(size, 'eigenvalue')} {are} clear of noise</b>."


def _of_components(arrays: Arrays) -> str:
    clear = arrays["distinguishable"] > 0
    name, kept = component_agreement(arrays)
    found, every = int(clear.sum()), len(clear)
    are = "is" if found == 1 else "are"
    lead = f"<b>{found} of {_counted(every, 'component')} {are} clear of noise</b>"
    if not found:
        return f"{lead}: none should be interpreted."
    known = kept[clear & ~np.isnan(kept)]
    span = ""
    if known.size:
        low, high = percent(float(known.min())), percent(float(known.max()))
        span = f"a {name} of {low}"
        if low != high:
            span = f"{name.removesuffix('y')}ies from {low} to {high}"
        span = f", with {escape(unbroken(span))}"
    rest = np.flatnonzero(~clear) + 1
    more = ""
    if rest.size == 1:
        more = f" Component {rest[0]} should not be interpreted."
    elif rest.size:
        more = " The others should not be interpreted."
    for told in component_groups(arrays):
        more += f" {escape(unbroken(told[0].upper() + told[1:]))}."
    return f"{lead}{span}.{more}"


def _shared(guarantee: Guarantee) -> str:
    if guarantee.simulated:
        return "<b>No</b>: it is a simulation."
    if guarantee.assumption is not None:
        return "<b>Only where its model holds</b>: other tables are promised nothing."
    return (
        "Yes: reading and using it costs no more privacy. <b>Scores of single rows are not "
        "covered.</b>"
    )


def _counted(number: int, name: str) -> str:
    return f"{number:,} {plural(name, number)}"


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
