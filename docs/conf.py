"""The site: ``make docs``. Nothing here needs a network, and no page asks for one."""

import os
import shutil
import sys
import tempfile
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Cells that run the command line find the one of this environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["IPYTHONDIR"] = tempfile.mkdtemp()
startup = Path(os.environ["IPYTHONDIR"]) / "profile_default" / "startup"
startup.mkdir(parents=True)
shutil.copy(HERE / "_ext" / "shell.py", startup)

project = "eigenveil"
author = "The eigenveil developers"
copyright = "the eigenveil developers, Apache-2.0"
version = release = installed("eigenveil")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "cells",
    "mathml",
    "pages",
    "sheet",
]
exclude_patterns = [
    "_ext",
    "examples",
    "gallery/**/*.ipynb",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
default_role = "literal"
nitpicky = False

html_theme = "pydata_sphinx_theme"
html_title = "eigenveil"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/veil.svg"
html_sourcelink_suffix = ""
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "logo": {
        "text": "eigenveil",
        "image_light": "_static/veil.svg",
        "image_dark": "_static/veil.svg",
    },
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "start": [], "comparison": []}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
suppress_warnings = [
    "misc.highlighting_failure",  # excerpts of files with dots for what is left out
    "myst.header",  # proofs step from a title to a small heading
    "config.cache",  # the order of the gallery is a function
]

nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery/examples"],
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "abort_on_example_error": True,
}
