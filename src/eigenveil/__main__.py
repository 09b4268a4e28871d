"""``eigenveil`` and ``python -m eigenveil``: the command line as a program of its own."""

import sys

from eigenveil.cli import main

__all__ = ["run"]


def run() -> None:
    """Answer one command."""
    # scikit-learn imports pandas wherever it is installed: 40 MB and half a second that no command
    # has any use for.
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
    main(prog_name="eigenveil")


if __name__ == "__main__":
    run()
