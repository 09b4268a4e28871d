"""The page for people: one self-contained HTML file, no script, no network.

It is a function of ``release.json`` and the arrays, byte for byte and on every machine, so that
verifying it is rendering it again. A change to what is rendered is another `PAGE_FORMAT`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.privacy.budget import stated
from eigenveil.privacy.guarantee import SIMULATION, Guarantee
from eigenveil.privacy.ledger import Balance
from eigenveil.release.drawings import (
    draw_bar,
    draw_coefficients,
    draw_correlations,
    draw_loadings,
    draw_scree,
    draw_spending,
    signed,
)
from eigenveil.release.statement import Contribution
from eigenveil.release.views import (
    Spectrum,
    coefficients,
    correlations,
    loadings,
    spectrum,
    spending,
)

__all__ = ["PAGE_FORMAT", "promise", "promises", "render"]

PAGE_FORMAT = 3  # a page of another format is not checked, and `verify` says so

Arrays = Mapping[str, NDArray[np.float64]]

_MOST_BARS = 40
_MOST_COMPONENTS = 6  # whose loadings are drawn
_MOST_PAIRS = 5  # of columns, in words beside their map
_MOST_COMPARED = 50  # owners, the farthest from the others
_MOST_UNFOLDED = 5  # owners whose words are shown without being asked for
_RIGHT = ' class="number"'
_MOSTLY = 0.5  # of a component that is reliable
_ROUNDING = 1e-9  # of the largest eigenvalue: below it a sign means nothing
_CENTRES = {
    "none": "the origin, as stated",
    "mean": "a private mean of clipped rows",
    "located": "private, found in two steps",
    "paired": "none: differences of pairs of rows",
    "inside": "known inside the common directions only, which is what scores need",
}
_UNITS = {
    "one row": "rows",
    "all rows of one group": "groups",
    "all rows of one person": "persons",
}
_NO_ONE_LEVEL = (
    "<p>Each owner added noise of its own, so there is no one eigenvalue that noise alone would "
    "reach.</p>"
)
_TITLES = {
    "pca": "Private principal components",
    "covariance": "Private covariance",
    "regression": "Private regression",
}
_MOST_TARGETS = 6  # whose coefficients are drawn

# Nothing but the style sheet of the page itself may be used by a browser.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Arrays,
    *,
    owners: Sequence[Contribution] = (),
    balance: Balance | None = None,
    now: Balance | None = None,
) -> str:
    """The report of one release.

    ``balance`` is the ledger's when the release was charged, by default what the release says;
    ``now`` is its balance at present, where someone has looked.
    """
    settings = document["settings"]
    name = _TITLES[document["kind"]] + (" (simulation)" if guarantee.simulated else "")
    created = escape(document["created"])
    noisy = spectrum(document["kind"], settings, arrays)
    if balance is None and "ledger" in settings:
        balance = Balance(**settings["ledger"])
    sections = [
        ("What is promised", promise(guarantee)),
        ("What each owner promises", promises(owners)),
        ("How far the owners agree", _compared(settings.get("federation"))),
        ("What it cost", "" if balance is None else _cost(balance, now)),
        ("How far to trust it", _trust(document, arrays, noisy)),
        _contents(document, arrays, noisy),
        ("How it was made", _table(_facts(document, arrays))),
        ("How to verify it", _VERIFY),
    ]
    body = "\n".join(
        f"<section><h2>{title}</h2>\n{content}</section>" for title, content in sections if content
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title><style>{_style()}</style></head><body>
<header><h1>{name}</h1>
<p class="soft">Released <time datetime="{created}">{_moment(created)}</time> with mechanism
<b>{escape(document["mechanism"])}</b></p>
{_warning(guarantee)}{_tiles(guarantee, document, arrays, noisy, owners)}</header>
<main>
{body}
</main>
<footer class="soft small">Written by eigenveil {escape(document["library"])}. Everything here is
computed from the release and public settings; no record was read for it.</footer>
</body></html>
"""


@lru_cache(maxsize=1)
def _style() -> str:
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


def promise(guarantee: Guarantee) -> str:
    """The guarantee's own words, clause by clause."""
    return f'<div class="promise">{_table(guarantee.statements())}</div>'


def promises(owners: Sequence[Contribution]) -> str:
    """Who took part, and the own words of each, folded; nothing where there is no such list."""
    if not owners:
        return ""
    notions = [
        notion
        for notion in ("epsilon", "delta", "rho")
        if any(notion in owner.guarantee.budget.as_dict() for owner in owners)
    ]
    header = ("owner", _counted_as(owners), *notions, "weight: directions", "values")
    head = "".join(
        f'<th scope="col"{_RIGHT if i else ""}>{title}</th>' for i, title in enumerate(header)
    )
    rows = "".join(_owner_row(owner, notions) for owner in owners)
    unfolded = " open" * (len(owners) <= _MOST_UNFOLDED)
    own = "".join(
        f"<details{unfolded}><summary>{escape(owner.name)}</summary>"
        f"{_simulation(owner.guarantee)}{promise(owner.guarantee)}</details>"
        for owner in owners
    )
    return (
        "<p>Each owner made its own promise to its own records, and these hold one by one. Weights "
        "are the parts of the owners in the common directions and in the values along them.</p>"
        f'<table class="owners"><thead class="small"><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table><h3>In their own words</h3>{own}"
    )


def _compared(federation: Mapping[str, Any] | None) -> str:
    """Whose answers stand apart, whose weight was cut, and who is missing."""
    if federation is None:
        return ""
    told = federation["compared"]
    farthest = sorted(told, key=lambda name: -told[name]["distance"])[:_MOST_COMPARED]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td{_RIGHT}>{told[name]["distance"]:.3g}</td>'
        f"<td{_RIGHT}>{_ratio(told[name].get('variance'))}</td></tr>"
        for name in farthest
    )
    rest = f" The {_MOST_COMPARED} farthest are shown." if len(told) > _MOST_COMPARED else ""
    if any(one.get("variance", 0.0) < 0 for one in told.values()):
        rest += " A negative one is noise: that owner's answer says nothing of its variance."
    missing = [f"{one['owner']} ({one['round']}: {one['code']})" for one in federation["left_out"]]
    bound = f"none above {federation['largest_weight']:g}"
    if federation["largest_weight"] < 1 and (vouched := federation.get("vouched")):
        bound += f" but of owners whose numbers all vouch for: {', '.join(vouched)}"
    notes = [
        ("weights", f"{federation['weights']}, {bound}"),
        ("cut to that weight", ", ".join(federation["cut"]) or "nobody"),
        ("left out", ", ".join(missing) or "nobody"),
    ]
    return (
        "<p>Distance is the root of the share of an owner's directions that lies outside the "
        "common ones: 0 for the same, 1 for none in common. Variance is an owner's inside the "
        f"common directions, over that of all. Noise and other rows make both differ.{rest}</p>"
        '<table class="owners"><thead class="small"><tr><th scope="col">owner</th>'
        f'<th scope="col"{_RIGHT}>distance</th><th scope="col"{_RIGHT}>variance</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{_table(notes)}"
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _simulation(guarantee: Guarantee) -> str:
    return f'<p class="small warning">{SIMULATION}</p>' if guarantee.simulated else ""


def _owner_row(owner: Contribution, notions: Sequence[str]) -> str:
    budget = owner.guarantee.budget.as_dict()
    if owner.guarantee.budget.is_pure:
        budget["delta"] = 0.0
    numbers = (
        f"{owner.n_rows:,}",
        *(stated(budget[notion]) if notion in budget else "" for notion in notions),
        f"{owner.basis_weight:.3g}",
        f"{owner.values_weight:.3g}",
    )
    cells = "".join(f"<td{_RIGHT}>{number}</td>" for number in numbers)
    return f'<tr><th scope="row">{escape(owner.name)}</th>{cells}</tr>'


def _counted_as(owners: Sequence[Contribution]) -> str:
    """What the numbers of rows are numbers of."""
    return " or ".join(sorted({_UNITS[owner.guarantee.unit] for owner in owners}))


_VERIFY = """<pre><code>eigenveil verify FOLDER                      # intact and consistent
eigenveil verify FOLDER --fingerprint NOTED  # and the one that was noted
sha256sum -c SHA256SUMS                      # the files alone, without eigenveil
sha256sum SHA256SUMS                         # prints the fingerprint</code></pre>
<p>FOLDER is where <code>release.json</code>, <code>arrays.npz</code>, <code>report.html</code> and
<code>SHA256SUMS</code> lie. Whoever can rewrite all four can rewrite the sums too: note the
fingerprint elsewhere on the day of the release. This page cannot hold it, as it is part of what is
summed up; a page kept outside the folder is not covered.</p>
"""


def _moment(created: str) -> str:
    return created.replace("T", " ").replace("+00:00", " UTC")


def _warning(guarantee: Guarantee) -> str:
    if not guarantee.simulated:
        return ""
    return f'<p class="promise warning" role="alert">{SIMULATION} Do not publish.</p>\n'


def _tiles(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Arrays,
    noisy: Spectrum | None,
    owners: Sequence[Contribution],
) -> str:
    """The release at a glance."""
    settings = document["settings"]
    rows = "private" if settings["n_rows"] is None else f"{settings['n_rows']:,}"
    columns = f"{settings['n_features']:,}"
    (budget, *delta) = str(guarantee.budget).split(", ")
    holds = ", ".join([*delta, guarantee.unit, guarantee.kind.value])
    noun = "components" if document["kind"] == "pca" else "eigenvalues"
    if document["kind"] == "pca":
        clear = arrays["distinguishable"] > 0
    else:
        clear = np.zeros(settings["n_features"], dtype=bool) if noisy is None else noisy.clear
    outcome = (f"{int(clear.sum())} of {len(clear)}", f"{noun} told from noise")
    if document["kind"] == "regression":
        outcome = _coefficient_tile(arrays)
    if document["kind"] == "covariance" and noisy is None and owners:
        outcome = ("not known", "noise differs from owner to owner")
    counted = _counted_as(owners) if owners else _UNITS[guarantee.unit]
    where = f", owners: {len(owners):,}" if owners else ""
    facts = (
        ("Stands out", *outcome),
        ("Protected", budget, holds),
        ("Table", _times(rows, columns), _times(counted, "columns") + where),
    )
    tiles = "".join(
        f"<div><dt>{label}</dt><dd>{escape(value)}</dd><dd>{escape(note)}</dd></div>"
        for label, value, note in facts
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _coefficient_tile(arrays: Arrays) -> tuple[str, str]:
    kept = np.isfinite(arrays["scale"])
    low, high = arrays["interval"][:, :-1][:, kept, 0], arrays["interval"][:, :-1][:, kept, 1]
    clear = (low > 0) | (high < 0)
    return f"{int(clear.sum())} of {clear.size}", "coefficients told from zero"


def _facts(document: Mapping[str, Any], arrays: Arrays) -> list[tuple[str, str]]:
    settings = document["settings"]
    contents = []
    unknown = settings.get("centring") in ("paired", "inside")
    hidden = {"distinguishable"} | ({"mean", "location"} if unknown else set())
    for name, array in arrays.items():
        if name in hidden:
            continue
        size = _times(*(f"{length:,}" for length in array.shape))
        noun = "number" if array.size == 1 else "numbers"
        contents.append((name.replace("_", " "), f"{size} {noun}"))
    why = [("why this mechanism", settings["choice"])] if settings.get("choice") else []
    noise = f"standard deviation {settings['noise_scale']:.4g}"
    if "scale" in arrays and (arrays["scale"] != 1).any():
        noise += ", of scaled columns"
    on = _noise_on(document["mechanism"])
    if document["kind"] == "regression":
        noise, on = f"standard deviation {settings['noise_scale']:.4g}", "noise on the Gram matrix"
    if "federation" in settings:
        on = "noise on a value along a common direction"
        if document["kind"] == "covariance" and settings.get("centring") == "inside":
            noise += "; variance beside these has noise of its own, which is not stated"
    # That of owners is in what each of them sent.
    of_all = settings["noise_scale"] > 0 or "owners" not in document
    return [
        *why,
        *([(on, noise)] if of_all else []),
        *_stages(settings),
        *contents,
    ]


def _times(*lengths: str) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(lengths)


def _stages(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a release of components went about it."""
    if "centring" not in settings:
        return []
    centre = ("centre", _CENTRES[settings["centring"]])
    if "shares" not in settings:
        return [centre]
    spent = ", ".join(f"{stage} {share:.3g}" for stage, share in settings["shares"].items())
    return [
        centre,
        ("budget", f"{spent} (shares; searches for a distance come on top)"),
    ]


def _noise_on(mechanism: str) -> str:
    apart = mechanism in ("separate", "exponential")
    return "noise on an eigenvalue" if apart else "noise on a diagonal entry"


def _table(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in facts
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _cost(balance: Balance, now: Balance | None) -> str:
    """Spend against budget, in words and drawn."""
    latest = balance if now is None else now
    at_delta = "" if balance.delta is None else f" at delta = {balance.delta:g}"
    parts = spending(balance, now)
    moment = "With this release" if now is None else "When this page was written"
    return (
        f"<p>{moment}, {balance.notion} = {latest.spent:.4g} of {latest.granted:g}{at_delta} was "
        f"spent from the ledger of this table. Releases together cost less than the sum of what "
        f"each costs alone, so a part shows what it added.</p>"
        f"<figure>{draw_spending(parts, latest.granted, balance.notion)}</figure>"
    )


def _trust(document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None) -> str:
    if document["kind"] == "regression":
        return _intervals(document["settings"], arrays)
    if document["kind"] == "pca":
        if noisy is not None:
            levels = _levels(noisy)
        elif "owners" in document:
            levels = _NO_ONE_LEVEL
        else:
            levels = (
                "<p>This mechanism releases directions, not a noisy second moment, so there is no "
                "eigenvalue that noise alone would reach.</p>"
            )
        return levels + _reliability(arrays, unit_rows=noisy is not None and noisy.of_unit_rows)
    if noisy is None and "owners" in document:
        return _NO_ONE_LEVEL
    if noisy is None:
        return (
            "<p>The zero matrix, which holds nothing of the records. If a location was released "
            "with it, that has noise and was paid for.</p>"
        )
    return _levels(noisy)


def _intervals(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """What intervals are about."""
    if "gram" not in settings.get("shares", {}):
        return (
            "<p>Public numbers allowed no coefficients at this budget: the private mean of each "
            "target was released, and every prediction is that mean.</p>"
        )
    share = float(np.median(arrays["noise_share"]))
    return (
        f"<p>Each interval covers the coefficient of the population in "
        f"{settings['interval_level']:.0%} of releases, if the number of rows is large and the "
        "model is right about the mean of the target. It counts what sampling and what noise "
        f"leave; noise is responsible for {share:.0%} of the squared width of the median one.</p>"
    )


def _levels(noisy: Spectrum) -> str:
    """The eigenvalues beside what noise alone produces, in words and drawn."""
    values, floor, whole = noisy.values, noisy.floor, noisy.centre_floor
    above = int(np.sum(values > floor))
    if above == len(values):
        verdict = "Every one released lies above that."
    elif above == 0:
        verdict = "None released does: they cannot be told from noise."
    else:
        do = "does" if above == 1 else "do"
        others = "other" if above == len(values) - 1 else "others"
        verdict = (
            f"{above} of the {len(values)} released {do}; the {others} cannot be told from noise."
        )
    rest = f" The largest {_MOST_BARS} are drawn." if len(values) > _MOST_BARS else ""
    if negative := int(np.sum(values < -_ROUNDING * np.abs(values).max())):
        are = "is" if negative == 1 else "are"
        rest += f" {negative} {are} negative, which only noise can cause."
    source = "in the matrix and in its centre"
    if whole > floor:
        source = "in the matrix"
        verdict += f" The error of the centre may add one component of up to {whole:.4g}"
        taken = np.flatnonzero((values > floor) & (values <= whole) & ~noisy.clear)
        verdict += f": number {taken[0] + 1} is taken for it." if taken.size else "."
    return (
        f"<p>Noise alone, {source}, produces an eigenvalue above {floor:.4g} about once in a "
        f"hundred releases. {verdict}{rest}</p>"
        f"<figure>{draw_scree(noisy, _MOST_BARS)}</figure>"
    )


def _reliability(arrays: Arrays, *, unit_rows: bool) -> str:
    """How much of each component is left, in words and as bars."""
    about = (
        " It is about noise alone: every row was scaled to the same length, so that far rows count "
        "no more than near ones; where a few rows hold most of the variance, components of rows as "
        "they are would be other ones."
    )
    values, clear = arrays["reliability"], arrays["distinguishable"] > 0
    shown = values[:_MOST_BARS]
    rest = f" The first {_MOST_BARS} are shown." if len(values) > _MOST_BARS else ""
    bars = "".join(
        f'<tr><th scope="row">component {i + 1}</th><td>{draw_bar(value, bool(clear[i]))}</td>'
        f'<td class="number">{value:.1%}</td>'
        f'<td class="verdict soft">{"stands out" if clear[i] else "not clear"}</td></tr>'
        for i, value in enumerate(shown.tolist())
    )
    if "agreement" in arrays:
        about = (
            " It is estimated from how far the owners' answers, whose noise is independent, agree: "
            "what one owner alone knows is not counted. As many stand out as directions are shared "
            "by more than unrelated answers agree about once in a hundred times."
        )
        if (values[~clear] > _MOSTLY).any():
            about += (
                " Unrelated answers of few owners agree nearly as well where components are about "
                "half as many as columns, or more: there a reliable one may not be clear."
            )
    return (
        "<p>Noise turns directions. Shown is the expected share of each component that lies in the "
        "span of those that the same rows would give about the same centre without noise; "
        "directions of similar variance mix, among themselves and with those not released, which "
        "is not counted. Grey ones cannot be told from noise, or are one of many like them."
        f"{about if unit_rows or 'agreement' in arrays else ''}{rest}</p>"
        '<table class="bars"><thead class="small"><tr><th scope="col">direction</th>'
        '<th scope="col">reliability</th><td></td><td></td></tr></thead>'
        f"<tbody>{bars}</tbody></table>"
    )


def _contents(
    document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None
) -> tuple[str, str]:
    if document["kind"] == "pca":
        return "Which columns weigh most", _loadings(document["settings"], arrays)
    if document["kind"] == "regression":
        return "What goes with the target", _coefficients(document["settings"], arrays)
    return "Which columns go together", _map(document, arrays, noisy)


def _coefficients(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Intervals of the coefficients that stand out most, for each target."""
    if not arrays["coef"].any():
        return "<p>All coefficients are zero: nothing stands out from the noise.</p>"
    targets = range(min(_MOST_TARGETS, len(arrays["coef"])))
    drawn = [coefficients(settings, arrays, i) for i in targets]
    fewer = len(drawn[0].names) < drawn[0].n_columns
    which = f"The {len(drawn[0].names)} that stand out most" if fewer else "All"
    panels = "".join(
        f"<figure><h3>{escape(one.target)}</h3>{draw_coefficients(one)}</figure>" for one in drawn
    )
    return (
        f"<p>{which}, each times the scale of its column: what one such scale more goes with. "
        "Grey ones cannot be told from zero.</p>"
        f'<div class="panels">{panels}</div>'
    )


def _loadings(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Bars for the columns of the leading components that stand out."""
    clear = np.flatnonzero(arrays["distinguishable"] > 0)
    if clear.size == 0:
        return "<p>No component stands out from the noise, so no loadings are drawn.</p>"
    drawn = [loadings(settings, arrays, i) for i in clear[:_MOST_COMPONENTS].tolist()]
    reach = min(one.reach for one in drawn)
    low = min(-reach, *(float(one.values.min()) for one in drawn))
    high = max(reach, *(float(one.values.max()) for one in drawn))
    rest = f" The first {_MOST_COMPONENTS} that stand out are drawn." * (len(drawn) < clear.size)
    fewer = len(drawn[0].names) < drawn[0].n_columns
    which = f"The {len(drawn[0].names)} largest of {drawn[0].n_columns:,}" if fewer else "All"
    panels = "".join(
        f"<figure><h3>Component {one.component + 1}</h3>{draw_loadings(one, low, high)}</figure>"
        for one in drawn
    )
    return (
        f"<p>{which} loadings of each component that stands out; its sign as a whole is arbitrary."
        f"{rest} The shaded zone is how far the noise in a component would reach on so many "
        "columns if it were spread evenly; bars that end inside it are grey.</p>"
        f'<div class="panels">{panels}</div>'
    )


def _map(document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None) -> str:
    """The covariance as a map of correlations, and its strongest pairs in words."""
    shown = correlations(document["settings"], arrays)
    zero = noisy is None and "owners" not in document
    if zero or not (arrays["covariance"].diagonal() > 0).any():
        return "<p>The released matrix has no positive variance, so no map is drawn.</p>"
    notes = []
    if len(shown.names) < shown.n_columns:
        notes.append(
            f"The {len(shown.names)} columns with the largest released variance, of "
            f"{shown.n_columns:,}, are drawn."
        )
    if np.isnan(shown.values.diagonal()).any():
        notes.append("Columns whose released variance cannot be told from noise are blank.")
    if (np.abs(shown.values) > 1 + _ROUNDING).any():
        notes.append("Some lie beyond ±1, which only noise can cause, and are drawn as ±1.")
    if noisy is not None and not noisy.clear.any():
        notes.append("No eigenvalue stands above the noise: what the map shows may be noise.")
    pairs = "".join(
        f'<tr><th scope="row">{escape(a)}</th><td>{escape(b)}</td>'
        f'<td class="number">{signed(value)}</td></tr>'
        for a, b, value in shown.strongest(_MOST_PAIRS)
    )
    strongest = (
        '<table><thead class="small"><tr><th scope="col">column</th><th scope="col">and column</th>'
        '<th scope="col" class="number">correlation</th></tr></thead>'
        f"<tbody>{pairs}</tbody></table>"
    )
    return (
        "<p>Released covariances divided by released standard deviations; blue columns rise "
        f"together, red ones against each other. {' '.join(notes)}</p>"
        f'<figure class="map">{draw_correlations(shown)}</figure>'
        + (f"<h3>Strongest pairs</h3>{strongest}" if pairs else "")
    )
