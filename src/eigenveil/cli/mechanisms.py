"""``eigenveil mechanisms`` and ``eigenveil audit MECHANISM``.

Two small tables in the unit ball differ in one row; the rows that are exchanged are orthogonal,
which moves the second moment as far as one row can.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import BUDGET, JSON, with_options
from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import GapTooSmallError, InvalidParameterError, VerificationError

if TYPE_CHECKING:
    from eigenveil.mechanisms.registry import Mechanism


_SHOWN = ("releases", "name", "guarantee", "needs_bounds", "numerics", "about")


def rows() -> list[dict[str, Any]]:
    """Return a row for each mechanism of the two estimators, from the registry."""
    from eigenveil.mechanisms.registry import entries

    return [
        {
            "releases": one.releases,
            "name": one.name,
            "guarantee": ", ".join(one.notions),
            "needs_bounds": "no" if one.releases == "components" or one.unit_rows else "yes",
            "numerics": one.numerics.value,
            "pure_numerics": (one.pure_numerics or one.numerics).value if one.has_pure else None,
            "about": one.about,
            "auto": bool(one.auto),
        }
        for one in entries()
    ]


@click.command("mechanisms")
@JSON
def mechanisms(as_json: bool) -> None:
    """List all mechanisms of fit (components) and covariance.

    The default, auto, chooses among those "in auto" by public numbers: eigenveil plan says which.
    Exact numerics cover the computer's rounding; idealised ones are proved for real numbers. A
    mechanism that is idealised for a pure epsilon only is listed as "exact +".
    """
    found = rows()
    if as_json:
        say_json(found)
        return
    form = "{:<11} {:<18} {:<36} {:<7} {:<10} {}"
    say(form.format("releases", "name", "guarantee", "bounds", "numerics", "about"))
    for row in found:
        marked = row | {"name": f"{row['name']} *" if row["auto"] else row["name"]}
        if row["numerics"] == "exact" and row["pure_numerics"] == "idealised":
            marked["numerics"] = "exact +"
        say(form.format(*(marked[name] for name in _SHOWN)))
    say("* may be chosen by auto, the default: eigenveil plan says which and why", err=True)
    say("+ idealised for a pure epsilon", err=True)


_ALPHA = 1e-3  # probability of accusing a correct mechanism
_DELTA = 1e-6  # at which a pure epsilon or a rho is compared
_GAP_ROWS = 1000  # rows
_RELEASES = ("components", "covariance")


@click.command("audit")
@click.argument("mechanism")
@with_options(*BUDGET)
@click.option(
    "--of", type=click.Choice(_RELEASES), help="Kind of release, where a mechanism serves both."
)
@click.option(
    "--trials", type=int, default=1000, show_default=True, help="Number of runs on each table."
)
@JSON
def audit(
    mechanism: str, of: str | None, trials: int, as_json: bool, **budget: float | None
) -> None:
    """Attack MECHANISM on two neighbouring tables and compare with what it claims.

    The lower bound on epsilon that the attack shows is printed beside the claim. Exit code 5 if
    the claim is violated; a correct mechanism is accused with probability 0.001 at most. Silence
    proves nothing.
    """
    from eigenveil.audit import audit
    from eigenveil.cli.progress import counting

    attacked = _entry(mechanism, of)
    run, cost = _runs(attacked, budget)
    with counting(2 * trials, "attacking") as step:
        report = audit(
            lambda: step(run(0)),
            lambda: step(run(1)),
            cost=cost,
            trials=trials,
            alpha=_ALPHA,
            delta=budget["delta"] or _DELTA,
            continuous=not attacked.may_coincide,
        )
    if as_json:
        shown = report.epsilon_lower_bound
        stated = {
            "mechanism": mechanism,
            "trials": trials,
            "delta": report.delta,
            "epsilon_claimed": report.claimed_epsilon,
            "epsilon_shown": shown if math.isfinite(shown) else None,
            "noise_reused": report.duplicates,
            "violated": report.violated,
        }
        say_json(stated)
    if report.violated:
        raise VerificationError(f"{mechanism}: {report}; do not release with it, and report it")
    if not as_json:
        say(f"{mechanism}: {report}")


def _entry(mechanism: str, of: str | None) -> "Mechanism":
    from eigenveil.mechanisms.registry import entries
    from eigenveil.privacy.guarantee import Kind

    if mechanism == "auto":
        raise InvalidParameterError("'auto' is one of the others: audit that")
    found = {one.releases: one for one in entries() if one.name == mechanism}
    kinds = list(found)
    if not kinds:
        raise InvalidParameterError(f"no mechanism {mechanism!r}: see eigenveil mechanisms")
    if of is None and len(kinds) > 1:
        raise InvalidParameterError(
            f"{mechanism!r} releases both: add --of {' or --of '.join(_RELEASES)}"
        )
    if of is not None and of not in kinds:
        raise InvalidParameterError(f"{mechanism!r} releases {kinds[0]}: leave --of out")
    attacked = next(one for kind, one in found.items() if of in (None, kind))
    if attacked.kind is not Kind.WORST_CASE:
        raise InvalidParameterError(
            f"{mechanism!r} promises nothing for these tables: audit another"
        )
    return attacked


def _runs(attacked: "Mechanism", budget: dict[str, float | None]) -> tuple[Any, Any]:
    """Return one run on the first or second table, as a flat array, and the claimed cost."""
    import numpy as np

    from eigenveil.estimators.covariance import PrivateCovariance
    from eigenveil.estimators.pca import PrivatePCA

    company = np.eye(4)[1:] / 2
    if attacked.needs_gap:  # the exchanged rows turn one direction
        company = np.tile(np.eye(4)[0], (_GAP_ROWS, 1))
    sides = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]]) / math.sqrt(2)
    tables = [np.vstack([row, company]) for row in sides]
    upper = np.triu_indices(4)
    asked: dict[str, Any] = {**budget, "mechanism": attacked.name, "centring": "none"}
    fit: Callable[[Any], Any]
    if attacked.releases == "components":
        fit = PrivatePCA(1, **asked).fit
    else:
        fit = PrivateCovariance(**asked, row_norm=1.0).fit

    def read(fitted: Any) -> Any:
        """Return everything that is released, but for signs."""
        if attacked.releases == "covariance":
            values = fitted.release_.arrays.get("noisy_eigenvalues", ())
            return np.append(fitted.covariance_[upper], values)
        (component,), (value,) = fitted.components_, fitted.explained_variance_
        return (1 + value) * np.outer(component, component)[upper]

    def run(side: int) -> Any:
        try:
            return read(fit(tables[side]))
        except GapTooSmallError:  # a refusal is an outcome too
            return np.zeros(len(upper[0]))

    try:
        return run, fit(tables[0]).privacy_.cost
    except GapTooSmallError:
        raise InvalidParameterError(
            "at this budget every run on these tables is refused: give a larger --epsilon"
        ) from None
