"""Run cells of shell commands: copied to where IPython looks when it starts (conf.py).

As IPython's own ``%%bash``, but a command that fails stops the build, and output is one piece, in
lines as a terminal of 78 columns has them.
"""

import subprocess

from click import unstyle
from IPython.core.magic import register_cell_magic

from eigenveil.cli.printing import _for_terminal


@register_cell_magic
def bash(line, cell):
    """Run a cell, print what it prints, and raise where a command fails."""
    done = subprocess.run(
        ["bash", "-e", "-c", cell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for each in done.stdout.splitlines():
        print(unstyle(_for_terminal(each, 78)))
    done.check_returncode()
