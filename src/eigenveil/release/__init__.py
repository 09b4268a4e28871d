"""The artefact: arrays, a versioned statement and a page for people."""

from eigenveil.release.artefact import Release

__all__ = ["Release"]
