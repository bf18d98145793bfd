"""The instrument's site. `make docs` builds it from the files of the repository, without a network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "ext"))

from isometer import __version__
from shared_conf import *  # noqa: F403

project = html_title = "Isometer"
version = release = __version__
html_static_path = ["_static"]

# Signatures stay short: types stand beside the parameters, and aliases are not spelt out.
autodoc_typehints = "description"
autodoc_inherit_docstrings = False  # what torch says of its own methods is not ours to repeat
autodoc_typehints_description_target = "documented_params"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
python_maximum_signature_line_length = None
