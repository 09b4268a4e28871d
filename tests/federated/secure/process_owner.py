"""A process of an owner with seeded noise, over TLS: ``python -m ... FOLDER ADDRESS NAME``.

It kills itself when it is first shown a roll, if the folder holds ``NAME.dies``.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from eigenveil.federated import read_agreement, serve
from eigenveil.federated.secure import SecureOwner
from tests.federated.secure.parties import signing_key


class Dying:
    """An owner that dies before it answers a roll, once."""

    def __init__(self, owner: SecureOwner, sign: Path) -> None:
        self._owner, self._sign = owner, sign

    def answer(self, question: bytes) -> bytes:
        if b'"kind":"roll"' in question and self._sign.exists():
            self._sign.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._owner.answer(question)


def main(folder: Path, address: str, name: str) -> None:
    agreed = read_agreement(folder / "agreement.json")
    owner = SecureOwner(
        agreed,
        name,
        np.load(folder / f"{name}.npy"),
        signing_key(name),
        folder=folder / f"{name}-answers",
        random_state=sorted(agreed.owners).index(name),
    )
    serve(
        Dying(owner, folder / f"{name}.dies"),
        address,
        root_certificate=folder / "authority.pem",
        key=folder / f"{name}.key",
        patience=200,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
