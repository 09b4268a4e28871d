"""``eigenveil`` and ``python -m eigenveil``: the command line as a program of its own."""

import sys

__all__ = ["run"]


def run() -> None:
    """Answer one command."""
    # scikit-learn imports pandas wherever it is installed: 40 MB and half a second that no command
    # has any use for.
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
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
