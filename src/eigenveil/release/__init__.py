"""The artefact: arrays, a versioned statement and a page for people."""

from eigenveil.privacy.contribution import Contribution
from eigenveil.release.artefact import Release
from eigenveil.release.signature import generate_key, private_key

__all__ = ["Contribution", "Release", "generate_key", "private_key"]
