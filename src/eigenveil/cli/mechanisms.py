"""``eigenveil mechanisms``."""

from dataclasses import asdict, dataclass, replace

import click

from eigenveil.cli.options import JSON
from eigenveil.cli.printing import say, say_json

__all__ = ["MECHANISMS", "command"]

_GAUSSIAN, _BOTH, _PURE = "(epsilon, delta) or rho", "(epsilon, delta)", "epsilon"
_ANY = f"{_GAUSSIAN}, {_PURE}"
_NONE, _NEEDED = "no", "yes"


@dataclass(frozen=True, slots=True)
class _Mechanism:
    releases: str
    name: str
    guarantee: str
    needs_bounds: str
    numerics: str  # of the form the table gives on narrow tables
    about: str
    auto: bool = False  # whether the default may choose it


# A row for each mechanism of the two estimators.
MECHANISMS = [
    _Mechanism("components", *row)
    for row in (
        ("tangent", _GAUSSIAN, _NONE, "exact", "unit rows, then a tangent step", True),
        ("wishart", _PURE, _NONE, "idealised", "two-sided Wishart noise", True),
        ("spherical", _GAUSSIAN, _NONE, "exact", "the noisy second moment of unit rows", True),
        ("analyze-gauss", _GAUSSIAN, _NONE, "exact", "the noisy covariance", True),
        ("power", _GAUSSIAN, _NONE, "exact", "noisy products with a basis, pass after pass"),
        ("oja", _GAUSSIAN, _NONE, "exact", "one pass in batches, no matrix; single rows", True),
        ("adaptive-oja", _GAUSSIAN, _NONE, "exact", "oja, at ranges found privately"),
        ("tangent-oja", _GAUSSIAN, _NONE, "exact", "adaptive-oja, then tangent steps"),
        ("deflation", _BOTH, _NONE, "exact", "dp-pca, one component after the other"),
        ("dp-pca", _BOTH, _NONE, "exact", "a paper's truncated means; one component, many rows"),
        ("shuffled-oja", _BOTH, _NONE, "idealised", "a paper's shuffled records; one component"),
        (
            "gap-projector",
            _BOTH,
            _NONE,
            "idealised",
            "noise on the projector if a gap is found",
        ),
        ("exponential", _ANY, _NONE, "idealised", "one direction after the other, on the sphere"),
        ("laplace", _PURE, _NONE, "exact", "a baseline with Laplace noise"),
        (
            "spiked",
            _GAUSSIAN,
            _NONE,
            "idealised",
            "model-based: for tables of a stated law; Python only",
        ),
    )
] + [
    _Mechanism("covariance", *row)
    for row in (
        (
            "cleaned",
            _GAUSSIAN,
            _NEEDED,
            "exact",
            "Gaussian noise, eigenvalues cleaned",
            True,
        ),
        ("wishart", _PURE, _NEEDED, "idealised", "two-sided Wishart noise", True),
        (
            "adaptive-cleaned",
            _GAUSSIAN,
            _NEEDED,
            "exact",
            "cleaned, at a row norm lowered privately",
            True,
        ),
        ("gauss", _GAUSSIAN, _NEEDED, "exact", "Gaussian noise as it is; unbiased"),
        (
            "projection",
            _GAUSSIAN,
            _NEEDED,
            "exact",
            "projected to what rows within the bound allow",
        ),
        ("separate", _ANY, _NEEDED, "idealised", "eigenvalues and eigenvectors apart"),
        (
            "adaptive",
            _ANY,
            _NEEDED,
            "idealised",
            "gauss or separate, at a threshold found privately",
        ),
        ("laplace", _PURE, _NEEDED, "exact", "a baseline with Laplace noise"),
        ("exponential", _ANY, _NEEDED, "idealised", "eigenvectors drawn from the sphere"),
        ("coinpress", _GAUSSIAN, _NEEDED, "idealised", "bounds tightened step by step"),
        ("zero", _ANY, _NEEDED, "exact", "the zero matrix: the baseline to beat"),
    )
]


@click.command("mechanisms")
@JSON
def command(as_json: bool) -> None:
    """List all mechanisms of fit (components) and covariance.

    The default, auto, chooses among those "in auto" by public numbers: eigenveil plan says which.
        Exact numerics cover the computer's rounding; idealised ones are proved for real numbers.
    """
    if as_json:
        say_json([asdict(mechanism) for mechanism in MECHANISMS])
        return
    form = "{:<11} {:<18} {:<32} {:<7} {:<10} {}"
    say(form.format("releases", "name", "guarantee", "bounds", "numerics", "about"))
    for entry in MECHANISMS:
        marked = replace(entry, name=f"{entry.name} *") if entry.auto else entry
        say(form.format(*asdict(marked).values()))
    say("* may be chosen by auto, the default: eigenveil plan says which and why", err=True)
