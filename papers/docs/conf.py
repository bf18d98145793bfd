"""The companion's site. `make docs` builds it into the folder `papers` of the instrument's site."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "ext"))

from isometer_papers import __version__  # noqa: E402
from shared_conf import *  # noqa: E402, F403

project = html_title = "Isometer: the papers"
version = release = __version__
html_static_path = [str(DOCS / "_static")]
extensions += ["companion"]  # noqa: F405
