"""Compiles passes over rows for the wheel, or in place for an editable installation."""

import runpy
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Rows(BuildHookInterface):
    """Without a compiler there is nothing to add: the package then does the same with numpy."""

    def initialize(self, version, build_data):
        """Compile, and say for which machines the wheel is."""
        module = Path(self.root, "src", "eigenveil", "numerics", "build_rows.py")
        library = runpy.run_path(str(module))["build"]()
        if library is not None:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append(str(library.relative_to(self.root)))
