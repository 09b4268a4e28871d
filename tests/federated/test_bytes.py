"""What an owner sends in all: the numbers of its answers, and little more."""

import numpy as np
import pytest

from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate


class Counted:
    def __init__(self, owner: Owner) -> None:
        self.owner, self.sent = owner, 0

    def answer(self, question: bytes) -> bytes:
        said = self.owner.answer(question)
        self.sent += len(said)
        return said


@pytest.mark.parametrize(("d", "k"), [(20, 1), (500, 5), (20_000, 3)])
def test_an_owner_sends_its_numbers_and_less_than_two_kilobytes(d: int, k: int) -> None:
    rows = np.random.default_rng(0).standard_normal((20, d))
    public = {"federation": "bytes-2026", "epsilon": 1.0, "delta": 1e-6, "centring": "none"}
    owners = {
        name: Counted(Owner(OwnerSettings(owner=name, random_state=seed, **public), rows))
        for seed, name in enumerate(("north-hospital", "south-hospital"))
    }
    agreement = Agreement(
        federation="bytes-2026",
        owners=dict.fromkeys(owners, Limits()),
        n_columns=d,
        n_components=k,
        simulated=True,
    )
    simulate(agreement, owners)
    numbers = 8 * (d * k + k * k)
    for owner in owners.values():
        assert numbers < owner.sent < numbers + 2000
