"""Components and covariances of tables whose owners never pool them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenveil.federated.agreement import Agreement, Limits
    from eigenveil.federated.coordinator import Coordinator, Transport
    from eigenveil.federated.journal import Journal
    from eigenveil.federated.owner import Owner
    from eigenveil.federated.settings import OwnerSettings
    from eigenveil.federated.simulation import simulate

__all__ = [
    "Agreement",
    "Coordinator",
    "Journal",
    "Limits",
    "Owner",
    "OwnerSettings",
    "Transport",
    "simulate",
]

# Imported at first use: a journal can be read without what an owner needs.
_HOMES = {
    "Agreement": "agreement",
    "Coordinator": "coordinator",
    "Journal": "journal",
    "Limits": "agreement",
    "Owner": "owner",
    "OwnerSettings": "settings",
    "Transport": "coordinator",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
