"""The page as a whole: its frame, the release at a glance, and the order of its sections."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import SIMULATION, Guarantee
from eigenveil.privacy.ledger import Balance
from eigenveil.report.page.contents import contents
from eigenveil.report.page.drawings import draw_spending
from eigenveil.report.page.owners import UNITS, comparison, counted_as, promise, promises
from eigenveil.report.page.regression import coefficient_tile
from eigenveil.report.page.tables import Arrays, table, times
from eigenveil.report.page.trust import trust
from eigenveil.report.views import Spectrum, spectrum, spending

__all__ = ["PAGE_FORMAT", "render"]

PAGE_FORMAT = 5  # a page of another format is not checked, and `verify` says so

_CENTRES = {
    "none": "the origin, as stated",
    "mean": "a private mean of clipped rows",
    "located": "private, found in two steps",
    "paired": "none: differences of pairs of rows",
    "inside": "known inside the common directions only, which is what scores need",
}
_TITLES = {
    "pca": "Private principal components",
    "covariance": "Private covariance",
    "regression": "Private regression",
}

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
    """Return the report of one release.

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
        ("How far the owners agree", comparison(settings.get("federation"))),
        ("What it cost", "" if balance is None else _cost(balance, now)),
        ("How far to trust it", trust(document, arrays, noisy)),
        contents(document, arrays, noisy),
        ("How it was made", table(_facts(document, arrays))),
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
    """Return the release at a glance."""
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
        outcome = coefficient_tile(arrays)
    if document["kind"] == "covariance" and noisy is None and owners:
        outcome = ("not known", "noise differs from owner to owner")
    counted = counted_as(owners) if owners else UNITS[guarantee.unit]
    where = f", owners: {len(owners):,}" if owners else ""
    facts = (
        ("Stands out", *outcome),
        ("Protected", budget, holds),
        ("Table", times(rows, columns), times(counted, "columns") + where),
    )
    tiles = "".join(
        f"<div><dt>{label}</dt><dd>{escape(value)}</dd><dd>{escape(note)}</dd></div>"
        for label, value, note in facts
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _cost(balance: Balance, now: Balance | None) -> str:
    """Spend against budget, in words and drawn."""
    latest = balance if now is None else now
    parts = spending(balance, now)
    moment = "With this release" if now is None else "When this page was written"
    return (
        f"<p>{moment} the ledger of this table had {escape(latest.reading())}. Each part below "
        "shows what it added to the total.</p>"
        f"<figure>{draw_spending(parts, latest.granted, balance.notion)}</figure>"
    )


def _facts(document: Mapping[str, Any], arrays: Arrays) -> list[tuple[str, str]]:
    settings = document["settings"]
    sizes = []
    unknown = settings.get("centring") in ("paired", "inside")
    hidden = {"distinguishable"} | ({"mean", "location"} if unknown else set())
    for name, array in arrays.items():
        if name in hidden:
            continue
        size = times(*(f"{length:,}" for length in array.shape))
        noun = "number" if array.size == 1 else "numbers"
        sizes.append((name.replace("_", " "), f"{size} {noun}"))
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
        *sizes,
    ]


def _stages(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how a release of components went about it."""
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
