"""Compiles `rows.c`, where there is a compiler: a step of the installation that may fail.

Imports nothing but the standard library: it runs before the package has its dependencies.
"""

import os
import shlex
import shutil
import subprocess
import zlib
from pathlib import Path

_SOURCE = Path(__file__).with_name("rows.c")

# Nothing that lets additions change their order, or a product and a sum be rounded once.
_FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")


def library_path(folder: Path = _SOURCE.parent) -> Path:
    """Return where the library of this source lies, or would: that of another one has its own."""
    return folder / f"rows-{zlib.crc32(_SOURCE.read_bytes()):08x}.so"


def build(folder: Path = _SOURCE.parent) -> Path | None:
    """Compile into ``folder`` and return the library, or None where that is not possible."""
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or ""]
    for old in folder.glob("rows-*.so"):
        old.unlink()
    library = library_path(folder)
    words = [*compiler, *_FLAGS, str(_SOURCE), "-o", str(library), "-lm"]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        library.unlink(missing_ok=True)
        return None
    return library
