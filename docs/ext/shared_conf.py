"""Settings that both sites share; `docs/conf.py` and `papers/docs/conf.py` import them all."""

from __future__ import annotations

author = "the Isometer authors"
html_show_copyright = False

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "docstrings",
    "exports",
    "mathtext",
    "tutorials",
    "commands",
    "tables",
    "sites",
]
exclude_patterns = ["_build", "*.py", "ext/*", "tutorials/my_cells.py"]
root_doc = "index"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3

smartquotes = False
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as the source has them: no paths of this machine
autodoc_typehints_format = "short"
autodoc_typehints = "description"  # signatures stay short; types stand beside the parameters
autodoc_typehints_description_target = "documented_params"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # not the union of everything that it is
autodoc_default_options = {"members": True, "no-value": True}
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_css_files = ["isometer.css"]
html_math_renderer = "mathtext"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
