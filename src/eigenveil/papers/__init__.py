"""The figures of the papers, as commands: simulations, and nothing that may be released.

One module per paper declares its figures as data (`figure.py`); `runner.py` runs them, `claims.py`
judges what a paper says about them, `drawing.py` draws. Algorithms that exist only to be shown as
they are printed are in `printed/`. No ledger is ever charged here: noise is seeded, and a method
that reads records without noise is called "not private" wherever its name stands.
"""

from functools import cache
from importlib import import_module

from eigenveil.papers.figure import Figure

__all__ = ["PAPERS", "figures"]


PAPERS = ("spiked", "covrev", "kpca", "fed", "kimjung")  # modules of this package


@cache
def figures() -> dict[str, Figure]:
    """Return all figures by name."""
    modules = [import_module(f"{__name__}.{paper}") for paper in PAPERS]
    return {one.name: one for module in modules for one in module.FIGURES}
