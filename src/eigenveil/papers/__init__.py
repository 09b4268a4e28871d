"""The figures of the papers, as commands: simulations, and nothing that may be released.

One module per paper declares its figures as data (`figure.py`); `runner.py` runs them, `claims.py`
judges what a paper says about them, `drawing.py` draws. Algorithms that exist only to be shown as
they are printed are in `printed/`. No ledger is ever charged here: noise is seeded, and a method
that reads records without noise is called "not private" wherever its name stands.
"""

from eigenveil.doors import lazy_names

_HOMES = {
    "algorithms": "ALGORITHMS algorithm",
    "claims": (
        "Claim Results above at_most below best_of every falls gains near often_below rises steady"
    ),
    "drawing": "document lines total",
    "figure": "PAPERS SCALES Compared Figure Method Panel figures",
    "runner": "Stored run tasks",
    "simulation": "UNIT_ROWS",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
