"""Settings of the documentation site; `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

from sswim import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

mpl.use("agg")

project = "sswim"
author = "The sswim developers"
version = release = __version__
copyright = "The sswim developers, MIT licence"

extensions = [
    "myst_parser",
    "sphinx-mathjax-offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "reference",
    "repository_links",
]
exclude_patterns = ["_build"]
nitpicky = True
highlight_language = "text"

# Markdown pages, which GitHub shows as well.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]

# The reference, from the docstrings.
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = True  # methods that scikit-learn and PyTorch lend
napoleon_use_ivar = True
napoleon_use_rtype = False

# Without a network there are no inventories of other projects, so only names of sswim can be links.
# Types in signatures may also be internal; references that docstrings write out must exist.
nitpick_ignore_regex = [("py:.*", r"(?!sswim\b).*"), ("py:(class|obj)", r".*")]

# The gallery: every example is executed.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.order",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "min_reported_time": 0,
    "write_computation_times": False,  # that page would load scripts from the network
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "capture_repr": ("_repr_html_", "__repr__"),
}

html_theme = "pydata_sphinx_theme"
html_title = f"sswim {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "start": []}  # they have no pages below them
html_theme_options = {
    "logo": {"text": "sswim"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
