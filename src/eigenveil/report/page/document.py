"""The page as a whole: its frame, the release at a glance, and the order of its sections."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

from eigenveil.privacy.balance import Balance
from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import SIMULATION, Guarantee
from eigenveil.report.charts import spending
from eigenveil.report.page.contents import columns_section, contents
from eigenveil.report.page.owners import comparison, promise, promises
from eigenveil.report.page.score_map import biplot_section
from eigenveil.report.page.summary import answers
from eigenveil.report.page.tables import Arrays, table, times, unbroken
from eigenveil.report.page.trust import trust
from eigenveil.report.svg import svg
from eigenveil.report.views import means_alone, spectrum

PAGE_FORMAT = 11  # a page of another format is not rendered again

_CENTRES = {
    "none": "the origin, as stated",
    "stated": "stated by the caller",
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

# What a regression holds of its columns, where it has none of their coefficients.
_NOT_ESTIMATED = {"coef", "interval", "noise_share", "location", "scale"}
_PROMISE, _SIGNATURES = "What is promised", "Signatures"
_LOOKS = {_PROMISE: ' class="statement"', _SIGNATURES: ' class="signing"'}

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
    about = settings.get("about", {})
    simulation = " (simulation)" if guarantee.simulated else ""
    name = escape(about.get("title", _TITLES[document["kind"]])) + simulation
    created = escape(document["created"])
    noisy = spectrum(document["kind"], settings, arrays)
    if balance is None and "ledger" in settings:
        balance = Balance(**settings["ledger"])
    sections = [
        (_PROMISE, f'<p class="lead">{_lead(guarantee)}</p>{promise(guarantee)}'),
        ("What each owner promises", promises(owners)),
        ("How far the owners agree", comparison(settings.get("federation"))),
        ("How far to trust it", trust(document, arrays, noisy)),
        contents(document, arrays, noisy),
        ("Where the rows lie", biplot_section(settings, arrays)),
        ("Columns, means and scales", columns_section(document, arrays)),
        ("What it cost", "" if balance is None else _cost(balance, now)),
        ("How it was made", table(_facts(document, arrays), "facts")),
        ("How to check it", _VERIFY),
        (_SIGNATURES, _signatures(about)),
    ]
    body = "\n".join(
        f"<section{_LOOKS.get(title, '')}><h2>{title}</h2>\n{content}</section>"
        for title, content in sections
        if content
    )
    summary = answers(guarantee, document, arrays, noisy, owners, balance if now is None else now)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title><style>{_style()}</style></head><body>
<header><p class="top small soft"><span>Report of a private release</span>
<span><time datetime="{created}">{_moment(created)}</time>, by
{escape(document["mechanism"])} of eigenveil {escape(document["library"])}</span></p>
<h1>{name}</h1>
{_warning(guarantee)}{summary}</header>
<main>
{body}
</main>
<footer class="soft small">Everything here is computed from the release and public settings; no
record was read for it.</footer>
</body></html>
"""


@lru_cache(maxsize=1)
def _style() -> str:
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


_VERIFY = """<pre><code>eigenveil verify FOLDER                      # intact and consistent
eigenveil verify FOLDER --fingerprint NOTED  # and the one that was noted
sha256sum -c SHA256SUMS                      # the files alone, without eigenveil
sha256sum SHA256SUMS                         # prints the fingerprint</code></pre>
<p>FOLDER holds <code>release.json</code>, <code>arrays.npz</code>, <code>report.html</code> and
<code>SHA256SUMS</code>. Whoever can change these files can change the sums too. So note the
fingerprint elsewhere on the day of the release. This page cannot state it, as the page is part of
what is summed up. A page kept outside the folder is not covered.</p>
"""


def _moment(created: str) -> str:
    return created.replace("T", " ").replace("+00:00", " UTC")


def _warning(guarantee: Guarantee) -> str:
    if not guarantee.simulated:
        return ""
    return f'<p class="card warning" role="alert">{SIMULATION} Do not publish.</p>\n'


def _lead(guarantee: Guarantee) -> str:
    return f"{escape(unbroken(guarantee.odds()))}, whatever else is known."


def _signatures(about: Mapping[str, str]) -> str:
    """Return lines to sign on, and one for the fingerprint."""
    lines = []
    for role, label in (("owner", "Data owner"), ("approver", "Approver")):
        who = f"{label}: <b>{escape(about[role])}</b>" if role in about else f"{label}: name"
        lines.append(f"<div>{who}</div><div>Place and date</div>")
    return (
        '<p class="small">I have read what is promised and what is not protected.</p>'
        f'<div class="sign">{"".join(lines)}<div class="all">Fingerprint, 64 characters, from '
        "<code>eigenveil verify</code></div></div>"
    )


def _cost(balance: Balance, now: Balance | None) -> str:
    """Spend against budget, in words and drawn."""
    latest = balance if now is None else now
    moment = "With this release" if now is None else "When this page was written"
    return (
        f"<p>{moment} the ledger of this table had {escape(latest.reading())}. Each part below "
        "shows what it added to the total.</p>"
        f"<figure>{svg(spending(balance, now))}</figure>"
    )


def _facts(document: Mapping[str, Any], arrays: Arrays) -> list[tuple[str, str]]:
    settings = document["settings"]
    sizes = []
    unknown = settings.get("centring") in ("paired", "inside")
    hidden = {"distinguishable"} | ({"mean", "location"} if unknown else set())
    alone = document["kind"] == "regression" and means_alone(settings)
    hidden |= _NOT_ESTIMATED if alone else set()
    for name, array in arrays.items():
        if name in hidden:
            continue
        size = times(*(f"{length:,}" for length in array.shape))
        sizes.append(f"{name.replace('_', ' ')} {size}")
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
    of_all = settings["noise_scale"] > 0 or not (alone or "owners" in document)
    return [
        *why,
        *([(on, noise)] if of_all else []),
        *_stages(settings),
        *_day(settings),
        *([("proofs", ", ".join(document["proofs"]))] if "proofs" in document else []),
        ("numbers released", ", ".join(sizes)),
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


def _day(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return which day of its horizon a running release is of."""
    if not {"day", "horizon"} <= settings.keys():
        return []
    return [("day", f"{settings['day']:,} of {settings['horizon']:,}")]


def _noise_on(mechanism: str) -> str:
    apart = mechanism in ("separate", "exponential")
    return "noise on an eigenvalue" if apart else "noise on a diagonal entry"
