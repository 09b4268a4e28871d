"""The page for people: one self-contained HTML file, no script, no network.

It is a function of ``release.json`` and the arrays, byte for byte and on every machine, so that
verifying it is rendering it again. A change to what is rendered, or to the sentence of a promise,
is another `PAGE_FORMAT`. It knows documents and arrays only, and stands below `eigenveil.release`,
whose third file it writes.
"""

from eigenveil.doors import lazy_names

_HOMES = {
    "document": "PAGE_FORMAT render",
    "owners": "promise promises",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
