"""The release at a glance: five questions that a reader has, each with one answer."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Balance
from eigenveil.report.page.owners import UNITS, counted_as
from eigenveil.report.page.regression import coefficient_tile
from eigenveil.report.page.tables import Arrays, unbroken
from eigenveil.report.views import (
    Spectrum,
    component_agreement,
    component_groups,
    estimand,
    hidden_variances,
    left_out,
    means_alone,
    standardised,
    why_left_out,
)
from eigenveil.text import listed, percent, plural

__all__ = ["answers"]

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
