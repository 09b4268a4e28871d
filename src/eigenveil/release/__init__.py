"""The artefact: arrays, a versioned statement and a page for people."""

from eigenveil.doors import lazy_names

_HOMES = {
    "artefact": "Release",
    "eigenveil.privacy.contribution": "Contribution",
    "signature": "generate_key private_key",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
