"""Durable files: what must survive a crash, and be one thing under all its names."""

from eigenveil.doors import lazy_names

_HOMES = {
    "archive": "unzip",
    "durable": "locked replace_file unchanged",
    "paths": "JOURNAL is_empty private_folder read_regular real_path",
    "reservation": "abandon reserved",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
