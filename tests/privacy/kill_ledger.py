"""Kill a releasing process at random moments and compare releases with charges.

Run as a process of its own: ``kill_ledger.py LEDGER KILLS charge-first|release-first``. The child
charges the ledger and then "releases" by writing a byte to a pipe; the parent kills it without
warning. Prints {"released", "charged"} as JSON.
"""

import json
import os
import random
import signal
import sys
import time

from eigenveil.privacy import Adjacency, Gaussian, Ledger


def release_forever(ledger, pipe, charge_first):
    while True:
        if not charge_first:
            os.write(pipe, b".")
        ledger.charge(Gaussian(1e-4), label="kill", adjacency=Adjacency.REPLACE_ONE)
        if charge_first:
            os.write(pipe, b".")


def main(path, kills, order):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    moments = random.Random(2026)
    released = 0
    for _ in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                release_forever(ledger, writer, order == "charge-first")
            finally:
                os._exit(1)  # only reached if the loop fails
        os.close(writer)
        # Let it release a few times, however busy the machine is, and strike at some moment after.
        for _ in range(moments.randint(0, 3)):
            released += len(os.read(reader, 1))
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the child must die by the signal, not by an error"
        while piece := os.read(reader, 4096):
            released += len(piece)
        os.close(reader)
    print(json.dumps({"released": released, "charged": len(ledger.entries)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
