"""``python -m eigenveil``: the command line."""

from eigenveil.cli import main

main(prog_name="eigenveil")
