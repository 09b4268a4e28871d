"""Rows that lie in parts on other machines, which answer sums over them."""

from eigenveil.doors import lazy_names

_HOMES = {
    "dask": "connected on_cluster",
    "device": "DeviceSource adds_exactly",
    "host_to_device": "Brought",
    "parts": "PartedUnits SumsOfParts add opened_part",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
