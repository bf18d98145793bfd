"""What a package exports, from its stub (or its `__init__.py`): where each name is defined, and where it is documented.

A package loads its names lazily, so Sphinx finds neither its constants nor the text after them. And a name can be
exported twice, by a package and by the one around it: `isometer.theory.kernel_map` is also in
`isometer.theory.kernels`. The reference has it once, under the shorter path.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

ROOTS = ("isometer", "isometer_papers")
PRIVATE = re.compile(r"~?isometer(_papers)?(\.[a-z]\w*)*\._\w+\.")


@cache
def homes(package: str) -> dict[str, str]:
    """The public names of a package, each with its path in the module that defines it.

    >>> homes("isometer.theory")["kernel_map"]
    'isometer.theory.kernels._kernel_map.kernel_map'
    """
    spec = importlib.util.find_spec(package)
    source = Path(spec.origin or "") if spec else Path()
    stub = source.with_suffix(".pyi")
    found: dict[str, str] = {}
    if source.name != "__init__.py":
        return found
    for node in ast.parse((stub if stub.is_file() else source).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return found


def documented_above(package: str, name: str) -> str | None:
    """The package around this one that exports the same object and documents it; the roots only list.

    >>> documented_above("isometer.theory.kernels", "kernel_map"), documented_above("isometer.theory", "kernel_map")
    ('isometer.theory', None)
    """
    home = homes(package).get(name)
    above = package.rpartition(".")[0]
    while above and above not in ROOTS:
        if home is not None and home in homes(above).values():
            return above
        above = above.rpartition(".")[0]
    return None


@cache
def constant_text(package: str, name: str) -> tuple[str, ...]:
    """The string after a constant in the module that defines it.

    >>> constant_text("isometer.theory", "KNIFE_EDGE")[0][:6]
    "|κ'(1)"
    """
    module, _, original = homes(package).get(name, f"{package}.{name}").rpartition(".")
    analyzer = ModuleAnalyzer.for_module(module)
    analyzer.analyze()
    return tuple(analyzer.attr_docs.get(("", original), ()))


def _constants(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give the analyzer of each package on a page the texts of its constants."""
    for line in source[0].splitlines():
        if line.startswith(".. automodule:: "):
            package = line.split()[-1]
            analyzer = ModuleAnalyzer.for_module(package)
            analyzer.analyze()
            for name in homes(package):
                if text := constant_text(package, name):
                    analyzer.attr_docs["", name] = [*text, "", ":meta hide-value:"]


def _skip(app: Sphinx, what: str, name: str, value: object, skip: bool, options: Any) -> bool | None:
    package = app.env.current_document.autodoc_module
    return True if what == "module" and documented_above(package, name) else None


def _elsewhere(app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    """After the docstring of a package: which of its names are documented under another."""
    if what != "module":
        return
    listed: dict[str, list[str]] = {}
    for one in homes(name):
        if above := documented_above(name, one):
            listed.setdefault(above, []).append(one)
    for above, names in listed.items():
        links = ", ".join(f":py:obj:`{one} <{above}.{one}>`" for one in sorted(names))
        lines += ["", f"It also exports, documented under ``{above}``: {links}.", ""]


TWICE = {"Activation": "isometer.activations.Activation"}
"""Class names that two packages have, and the class that a bare name in an annotation means."""


def _one_meaning(app: Sphinx, doctree: nodes.document) -> None:
    """Annotations of a class's own signature are not evaluated, so they name a class without its package."""
    for link in doctree.findall(addnodes.pending_xref):
        link["reftarget"] = TWICE.get(link["reftarget"], link["reftarget"])


def _titles(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Links and signatures name the public path of a class: annotations know only the private module."""
    for link in doctree.findall(nodes.reference):
        if "reftitle" in link:
            link["reftitle"] = re.sub(r"\._\w+", "", link["reftitle"])
    for signature in doctree.findall(addnodes.desc_signature):
        for text in list(signature.findall(nodes.Text)):
            if PRIVATE.search(text):
                text.parent.replace(text, nodes.Text(PRIVATE.sub("", text)))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _constants)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _one_meaning)
    app.connect("doctree-resolved", _titles)
    app.connect("autodoc-process-docstring", _elsewhere, priority=900)  # after `docstrings` has escaped the text
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
