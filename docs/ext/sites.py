"""Two sites, one tree of pages: the companion's site is the folder `papers` of the instrument's.

A link from a page of one site to a file of the other (`../papers/docs/claims.md`) becomes a link to the built page, and
the companion's site looks up names of the instrument in the inventory of the instrument's site, which is built first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[2]
SITES = {ROOT / "papers" / "docs": "papers/", ROOT / "docs": ""}
"""Folder of each site's pages, and where the site is below the common root."""


def address(path: Path) -> str | None:
    """Where a page is in the built tree, nothing if it belongs to no site.

    >>> address(ROOT / "papers" / "docs" / "ledger" / "001.md"), address(ROOT / "docs" / "doctor.md")
    ('papers/ledger/001.html', 'doctor.html')
    """
    for folder, prefix in SITES.items():
        if path.is_relative_to(folder):
            return prefix + path.relative_to(folder).with_suffix(".html").as_posix()
    return None


class LinksAcross(SphinxTransform):
    """Links to files of the other site become relative addresses, and so do links of included files of the root."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:
        here = Path(self.env.doc2path(self.env.docname))
        for kind in (addnodes.pending_xref, addnodes.download_reference):
            for node in list(self.document.findall(kind)):
                if node.get("reftype") == "myst" and (link := self._link(here, node)):
                    node.replace_self(nodes.reference("", "", *node.children, refuri=link, internal=False))

    def _link(self, here: Path, node: Any) -> str | None:
        """The address of a file of the other site or of a file that is named from the root; nothing for all others."""
        target, _, anchor = node["reftarget"].partition("#")
        base = Path(self.env.srcdir) if node.get("refdomain") == "doc" else here.parent
        for folder, own_too in ((base, False), (ROOT, True)):
            for suffix in ("", ".md", ".py"):
                path = Path(os.path.normpath(folder / f"{target}{suffix}"))
                if target and path.is_file() and (own_too or not path.is_relative_to(self.env.srcdir)):
                    place = address(path)
                    if place is None:
                        return None
                    link = os.path.relpath(place, os.path.dirname(address(here) or "") or ".")
                    anchor = node.get("reftargetid") or anchor
                    return f"{link}#{anchor}" if anchor else link
        return None


def _inventory(app: Sphinx, config: Any) -> None:
    """The companion's site is a folder of the instrument's; the inventory is one folder up."""
    if Path(app.srcdir) == ROOT / "papers" / "docs":
        config.intersphinx_mapping = {"isometer": ("..", str(Path(app.outdir).parent / "objects.inv"))}


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(LinksAcross)
    app.connect("config-inited", _inventory, priority=100)  # before intersphinx reads it
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
