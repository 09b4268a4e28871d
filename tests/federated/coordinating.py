"""One federation of stand-ins, and what its release says."""

from typing import Any

from eigenveil.federated import Coordinator, Journal, Limits
from eigenveil.release import Release
from tests.federated.stubs import NAMES, Clock, Stub, Wire, agreement

DECLARES = "invitation".__eq__


def wire(keys: bool = True, **stubs: Stub) -> Wire:
    return Wire({f"n-{name}": stubs.get(name, Stub(name)) for name in NAMES}, keys=keys)


def run(transport: Wire, journal: Journal | None = None, **changes: Any) -> Release:
    clock = Clock()
    coordinator = Coordinator(
        agreement(**changes), journal or Journal(), clock=clock, sleep=clock.sleep
    )
    return coordinator.run(transport)


def known(records: int) -> Limits:
    """All that the stubs declare."""
    return Limits(records=records, epsilon=1.0, delta=1e-6, mechanism="spherical")


def left_out(release: Release) -> set[tuple[str, str, str]]:
    listed = release.settings["federation"]["left_out"]
    return {(each["round"], each["owner"], each["code"]) for each in listed}


def weights(release: Release) -> dict[str, float]:
    return {owner.name: owner.basis_weight for owner in release.owners if owner.basis_weight}
