"""Run cells of shell commands: copied to where IPython looks when it starts (conf.py).

As IPython's own ``%%bash``, but a command that fails stops the build, and output is one piece.
"""

import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(line, cell):
    """Run a cell, print what it prints, and raise where a command fails."""
    done = subprocess.run(
        ["bash", "-e", "-c", cell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout, end="")
    done.check_returncode()
