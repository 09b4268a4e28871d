"""An owner's process for the tests: answers with what it was asked, and its number.

``echo_owner.py ADDRESS ROOT KEY TRACE``; asked to ``die``, it is killed, the first time.
"""

import os
import signal
import sys
from pathlib import Path

from flwr.supernode.fleet_http_client import FleetHttpClient

from eigenveil.federated import serve


class Echo:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def answer(self, question: bytes) -> bytes:
        if question == b"die" and not self.trace.exists():
            self.trace.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return b"%d " % os.getpid() + question


def never(*_: object) -> None:
    os._exit(99)  # the server's code was asked for


FleetHttpClient.GetFab = never
address, root, key, trace = sys.argv[1:]
serve(Echo(Path(trace)), address, root_certificate=root, key=key, patience=60)
