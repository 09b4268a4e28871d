"""Doors of packages: names that are imported from their modules at first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        The names that each of its modules defines, separated by spaces. A module of another
        package is called by its whole name.

    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = modules[name]
        module = home if home.startswith("eigenveil.") else f"{package}.{home}"
        return getattr(import_module(module), name)

    return sorted(modules), get, lambda: sorted(modules)
