"""The page for people: one self-contained HTML file, no script, no network."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.privacy.guarantee import SIMULATION, Guarantee
from eigenveil.privacy.ledger import Balance
from eigenveil.release.drawings import (
    draw_bar,
    draw_correlations,
    draw_loadings,
    draw_scree,
    draw_spending,
    signed,
)
from eigenveil.release.views import Spectrum, correlations, loadings, spectrum, spending

__all__ = ["promise", "render"]

Arrays = Mapping[str, NDArray[np.float64]]

_MOST_BARS = 40
_MOST_COMPONENTS = 6  # whose loadings are drawn
_MOST_PAIRS = 5  # of columns, in words beside their map
_ROUNDING = 1e-9  # of the largest eigenvalue: below it a sign means nothing
_CENTRES = {
    "none": "the origin, as stated",
    "mean": "a private mean of clipped rows",
    "located": "private, found in two steps",
    "paired": "none: differences of pairs of rows",
}
_TITLES = {"pca": "Private principal components", "covariance": "Private covariance"}

# Nothing but the style sheet of the page itself may be used by a browser.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1b2733; --soft: #566573; --line: #dde3e8;
  --paper: #ffffff; --signal: #1f6f8b; --noise: #bf4a30; --grey: #9aa7b2; --card: #f4f7f9; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e8edf1; --soft: #a5b4c0;
  --line: #2f3d48; --paper: #131b22; --signal: #62b6cb; --noise: #f08a6f; --grey: #67788a;
  --card: #1b262f; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 48rem; margin: 2.5rem auto; padding: 0 1.2rem; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .2rem; }
p { margin: .5rem 0 .9rem; } .soft, figcaption { color: var(--soft); }
figcaption, .small { font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .8rem;
  margin: 1.4rem 0; } .tiles div { background: var(--card); border-radius: 6px;
  padding: .7rem 1rem; } .tiles dt { color: var(--soft); font-size: .875rem; }
.tiles dd { margin: 0; } .tiles dd:first-of-type { font-size: 1.25rem; font-weight: 600;
  line-height: 1.35; } .tiles dd + dd { font-size: .875rem; }
.promise { background: var(--card); padding: .5rem 1.2rem; border-left: 4px solid var(--signal);
  border-radius: 4px; } .promise tr:last-child > * { border-bottom: none; }
.promise tr:last-child th { color: var(--noise); }
.warning { border-left-color: var(--noise); font-weight: 600; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .4rem .5rem .4rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; text-align: left; }
th { color: var(--soft); font-weight: 400; } tbody th { width: 11rem; }
.promise th { width: 8.5rem; font-weight: 600; }
.bars th, .bars td { vertical-align: middle; border-bottom: none; padding: .18rem .6rem .18rem 0; }
.bars tbody th { width: 8rem; color: var(--ink); } .number { text-align: right !important;
  width: 5rem; font-variant-numeric: tabular-nums; } .verdict { width: 1%; white-space: nowrap; }
.bars .number { padding-right: 1.2rem; }
figure { margin: 1rem 0; overflow-x: auto; } figure > svg { min-width: 33rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr));
  gap: 1.4rem 2rem; } .panels figure { margin: 0; } .panels svg { min-width: 0;
  max-width: 25rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 14px system-ui, sans-serif; fill: var(--ink); }
.map svg { max-width: 44rem; } .map g text { font-size: inherit; }
.clear { fill: var(--signal); } .faint { fill: var(--grey); } .minus { fill: var(--noise); }
.later { fill: var(--signal); fill-opacity: .45; }
.track, .void { fill: var(--line); } .paper { fill: var(--paper); }
.zone { fill: var(--noise); fill-opacity: .12; } .edge { stroke: var(--noise); stroke-width: 2; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.outline, .key { stroke: var(--soft); } .outline { fill: none; }
svg text.warn { fill: var(--noise); }
svg text.over { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg text.inverse { fill: var(--paper); }
pre { background: var(--card); border-radius: 4px; padding: .8rem 1rem; overflow-x: auto;
  font: .875rem/1.6 ui-monospace, monospace; }
footer { margin-top: 2.6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
@media print { body { max-width: none; margin: 0; padding: 0; font-size: 10.5pt;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2 { margin-top: 1.4rem; } h2, h3 { break-after: avoid; }
  figure, tr, pre, .tiles, .promise { break-inside: avoid; } .map svg { max-width: 15cm; }
  pre { white-space: pre-wrap; } }
"""


def render(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Arrays,
    *,
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
        ("What it cost", "" if balance is None else _cost(balance, now)),
        ("How far to trust it", _trust(document["kind"], arrays, noisy)),
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
<title>{name}</title><style>{_STYLE}</style></head><body>
<header><h1>{name}</h1>
<p class="soft">Released <time datetime="{created}">{_moment(created)}</time> with mechanism
<b>{escape(document["mechanism"])}</b></p>
{_warning(guarantee)}{_tiles(guarantee, document, arrays, noisy)}</header>
<main>
{body}
</main>
<footer class="soft small">Written by eigenveil {escape(document["library"])}. Everything here is
computed from the release and public settings; no record was read for it.</footer>
</body></html>
"""


def promise(guarantee: Guarantee) -> str:
    """The guarantee's own words, clause by clause."""
    return f'<div class="promise">{_table(guarantee.statements())}</div>'


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
    guarantee: Guarantee, document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None
) -> str:
    """The release at a glance."""
    settings = document["settings"]
    rows = "private" if settings["n_rows"] is None else f"{settings['n_rows']:,}"
    (budget, *delta) = str(guarantee.budget).split(", ")
    holds = ", ".join([*delta, guarantee.unit, guarantee.kind.value])
    noun = "components" if document["kind"] == "pca" else "eigenvalues"
    if document["kind"] == "pca":
        clear = arrays["distinguishable"] > 0
    else:
        clear = np.zeros(settings["n_features"], dtype=bool) if noisy is None else noisy.clear
    outcome = (f"{int(clear.sum())} of {len(clear)}", f"{noun} told from noise")
    facts = (
        ("Stands out", *outcome),
        ("Protected", budget, holds),
        ("Table", _times(rows, f"{settings['n_features']:,}"), _times("rows", "columns")),
    )
    tiles = "".join(
        f"<div><dt>{label}</dt><dd>{escape(value)}</dd><dd>{escape(note)}</dd></div>"
        for label, value, note in facts
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _facts(document: Mapping[str, Any], arrays: Arrays) -> list[tuple[str, str]]:
    settings = document["settings"]
    contents = []
    hidden = {"distinguishable"} | ({"mean"} if settings.get("centring") == "paired" else set())
    for name, array in arrays.items():
        if name in hidden:
            continue
        size = _times(*(f"{length:,}" for length in array.shape))
        noun = "number" if array.size == 1 else "numbers"
        contents.append((name.replace("_", " "), f"{size} {noun}"))
    why = [("why this mechanism", settings["choice"])] if settings.get("choice") else []
    return [
        *why,
        (_noise_on(document["mechanism"]), f"standard deviation {settings['noise_scale']:.4g}"),
        *_stages(settings),
        *contents,
    ]


def _times(*lengths: str) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(lengths)


def _stages(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a release of components went about it."""
    if "shares" not in settings:
        return []
    spent = ", ".join(f"{stage} {share:.3g}" for stage, share in settings["shares"].items())
    return [
        ("centre", _CENTRES[settings["centring"]]),
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
        f"spent from the ledger of this table. Costs compose to less than their sum, so a part "
        f"shows what the total grew by.</p>"
        f"<figure>{draw_spending(parts, latest.granted, balance.notion)}</figure>"
    )


def _trust(kind: str, arrays: Arrays, noisy: Spectrum | None) -> str:
    if kind == "pca":
        if noisy is not None:
            levels = _levels(noisy)
        else:
            levels = (
                "<p>This mechanism releases directions, not a noisy second moment, so there is no "
                "eigenvalue that noise alone would reach.</p>"
            )
        return levels + _reliability(arrays)
    if noisy is None:
        return (
            "<p>The zero matrix, which holds nothing of the records. If a location was released "
            "with it, that has noise and was paid for.</p>"
        )
    return _levels(noisy)


def _levels(noisy: Spectrum) -> str:
    """The eigenvalues beside what noise alone produces, in words and drawn."""
    values, floor, whole = noisy.values, noisy.floor, noisy.centre_floor
    above = int(np.sum(values > floor))
    if above == len(values):
        verdict = "Every one released lies above that."
    elif above == 0:
        verdict = f"None of the {len(values)} released does: they cannot be told from noise."
    else:
        verdict = f"{above} of the {len(values)} released do; the others cannot be told from noise."
    rest = f" The largest {_MOST_BARS} are drawn." if len(values) > _MOST_BARS else ""
    if negative := int(np.sum(values < -_ROUNDING * values[0])):
        rest += f" {negative} are negative, which only noise can cause."
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


def _reliability(arrays: Arrays) -> str:
    """How much of each component is left, in words and as bars."""
    values, clear = arrays["reliability"], arrays["distinguishable"] > 0
    shown = values[:_MOST_BARS]
    rest = f" The first {_MOST_BARS} are shown." if len(values) > _MOST_BARS else ""
    bars = "".join(
        f'<tr><th scope="row">component {i + 1}</th><td>{draw_bar(value, bool(clear[i]))}</td>'
        f'<td class="number">{value:.1%}</td>'
        f'<td class="verdict soft">{"stands out" if clear[i] else "not told from noise"}</td></tr>'
        for i, value in enumerate(shown.tolist())
    )
    return (
        "<p>Noise turns directions. Shown is the expected share of each component that lies in the "
        "span of those that the same rows would give about the same centre without noise; "
        "directions of similar variance mix, among themselves and with those not released, which "
        f"is not counted. Grey ones cannot be told from noise.{rest}</p>"
        '<table class="bars"><thead class="small"><tr><th scope="col">direction</th>'
        '<th scope="col">reliability</th><td></td><td></td></tr></thead>'
        f"<tbody>{bars}</tbody></table>"
    )


def _contents(
    document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None
) -> tuple[str, str]:
    if document["kind"] == "pca":
        return "Which columns weigh most", _loadings(document["settings"], arrays)
    return "Which columns go together", _map(document["settings"], arrays, noisy)


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


def _map(settings: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None) -> str:
    """The covariance as a map of correlations, and its strongest pairs in words."""
    shown = correlations(settings, arrays)
    if noisy is None or not (arrays["covariance"].diagonal() > 0).any():
        return "<p>The released matrix has no positive variance, so no map is drawn.</p>"
    notes = []
    if len(shown.names) < shown.n_columns:
        notes.append(
            f"The {len(shown.names)} columns with the largest released variance, of "
            f"{shown.n_columns:,}, are drawn."
        )
    if np.isnan(shown.values.diagonal()).any():
        notes.append("Columns whose released variance is not positive are blank.")
    if (np.abs(shown.values) > 1 + _ROUNDING).any():
        notes.append("Some lie beyond ±1, which only noise can cause, and are drawn as ±1.")
    if not noisy.clear.any():
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
