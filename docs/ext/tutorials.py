"""A tutorial is a Python script: comments that begin a line are its prose, in Markdown; the rest is code.

`# → text` after a print is what it prints. The tests run every script and compare.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

PRINTED = "# → "


def markdown(script: str) -> str:
    """The page of a script.

    >>> print(markdown("# # Title\\n# Words.\\n\\nx = 1\\nprint(x)\\n# → 1\\n"))
    # Title
    Words.
    <BLANKLINE>
    ```python
    x = 1
    print(x)
    ```
    ```{code-block} text
    :class: printed
    <BLANKLINE>
    1
    ```
    <BLANKLINE>
    """
    blocks: list[tuple[str, list[str]]] = []
    for line in script.splitlines():
        kind = "code"
        if line.startswith(PRINTED) or line == PRINTED.strip():
            kind, line = "printed", line[len(PRINTED) :]
        elif re.match(r"#( |$)", line):
            kind, line = "prose", line[2:]
        elif not line and blocks and blocks[-1][0] != "code":
            kind = blocks[-1][0] if blocks[-1][0] == "prose" else "code"
        if not blocks or blocks[-1][0] != kind:
            blocks.append((kind, []))
        blocks[-1][1].append(line)
    pages = []
    for kind, lines in blocks:
        text = "\n".join(lines).strip("\n")
        if not text:
            continue
        if kind == "prose":
            pages.append(text + "\n")
        elif kind == "code":
            text = re.sub(r"  # noqa.*$", "", text, flags=re.M)  # for the linter, not for readers
            pages.append(f"```python\n{text}\n```")
        else:
            pages.append(f"```{{code-block}} text\n:class: printed\n\n{text}\n```\n")
    return "\n".join(pages)


def printed(script: str) -> str:
    """What a script says that it prints."""
    lines = [line for line in script.splitlines() if line.startswith(PRINTED.rstrip())]
    return "".join(line[len(PRINTED) :] + "\n" for line in lines)


class TutorialParser(MystParser):
    """Reads a script as its page."""

    supported = ("tutorial",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        super().parse(markdown(inputstring), document)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_source_suffix(".py", "tutorial")
    app.add_source_parser(TutorialParser)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
