"""``eigenveil`` and ``python -m eigenveil``: the command line as a program of its own."""

import signal
import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType


class _WithoutPandas(Loader):
    """A loader that fails to import pandas, as where it is not installed.

    scikit-learn and pyarrow import it wherever it is: 40 MB and half a second that no command has
    any use for. None in ``sys.modules`` would do for scikit-learn; compiled modules take that for
    pandas itself.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that this loader fails to load; None for all other names."""
        return ModuleSpec(name, self) if name == "pandas" else None

    def exec_module(self, module: ModuleType) -> None:
        """Refuse."""
        raise ModuleNotFoundError("eigenveil does without pandas", name=module.__name__)


def _interrupt_when_asked_to_end() -> None:
    """Let a request to end and a closed terminal do what ctrl-C does: clean up, say what was spent.

    A signal that whoever started the program ignores, as ``nohup`` does, stays ignored.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # not every system has both
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def run() -> None:
    """Answer one command."""
    _interrupt_when_asked_to_end()
    sys.meta_path.insert(0, _WithoutPandas())
    told = "nothing was charged"
    try:
        from eigenveil.cli import main

        told = "what was charged is in the ledger"
        main(prog_name="eigenveil")
    except KeyboardInterrupt:  # while starting, or once more while the first was answered
        sys.stderr.write(f"interrupted: {told}\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
