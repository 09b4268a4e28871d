"""How large a federation may be: seconds of many owners in one process, and bytes of wide tables.

Wanted: 1,000 owners of 200 rows, 200 columns and 5 components in less than 60 s, all rounds; all
that an owner sends within 5 % of d k + k^2 numbers of 8 bytes plus less than 2 KB, up to 100,000
columns, as messages. The engine wraps each of the three in about 1.3 KB more, and HTTP has headers
of its own: tests/federated/test_flower_processes.py.
One thread.
"""

import os
import time

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate
from side_by_side import report

OWNERS = (10, 100, 1000)
COLUMNS = (50, 1000, 20_000, 100_000)
COMPONENTS = 5
WANTED_SECONDS, WANTED_SHARE, WANTED_HEADER = 60.0, 1.05, 2000


class Counted:
    """An owner whose bytes are counted."""

    def __init__(self, owner):
        self.owner, self.sent = owner, 0

    def answer(self, question):
        """What the owner says."""
        said = self.owner.answer(question)
        self.sent += len(said)
        return said


def owners(m, n, d, k):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((d, k)))[0]
    found = {}
    for j in range(m):
        rows = rng.standard_normal((n, d))
        rows += np.sqrt(20) * rng.standard_normal((n, k)) @ basis.T
        settings = OwnerSettings(
            owner=f"owner-{j}",
            federation="scale",
            epsilon=1.0,
            delta=1e-5,
            centring="none",
            random_state=j,
        )
        found[settings.owner] = Counted(Owner(settings, rows))
    return found


def run(m, n, d, k):
    asked = owners(m, n, d, k)
    agreement = Agreement(
        federation="scale",
        owners=dict.fromkeys(asked, Limits()),
        n_columns=d,
        n_components=k,
        simulated=True,
    )
    start = time.perf_counter()
    release = simulate(agreement, asked)
    seconds = time.perf_counter() - start
    assert len(release.owners) == m
    return seconds, [owner.sent for owner in asked.values()]


def main():
    rows = []
    for m in OWNERS:
        seconds, sent = run(m, 200, 200, COMPONENTS)
        rows.append((m, 200, 200, COMPONENTS, seconds, max(sent)))
    for d in COLUMNS:
        seconds, sent = run(3, 30, d, COMPONENTS)
        rows.append((3, 30, d, COMPONENTS, seconds, max(sent)))
    table = []
    for m, n, d, k, seconds, sent in rows:
        numbers = 8 * (d * k + k * k)
        table.append(
            {
                "owners": m,
                "rows_each": n,
                "columns": d,
                "components": k,
                "seconds": round(seconds, 2),
                "bytes_sent": sent,
                "beyond_numbers": sent - numbers,
                "ratio": round(sent / numbers, 5),
                "within": sent <= WANTED_SHARE * numbers + WANTED_HEADER
                and (m < max(OWNERS) or seconds < WANTED_SECONDS),
            }
        )
    report("federated_scale", table)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        main()
