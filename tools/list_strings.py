"""List the texts that people read, and flag the turns that docs/style.md forbids.

    python tools/list_strings.py [--all] [AREA …]

Areas: docs (pages and README), papers (pages of the companion), changelog, docstrings (of public names, from the
stubs), errors (what is raised), help (of commands), doctor (conditions, prescriptions, findings and the words of
reports), explorer (texts of its labs), scripts (texts of the doctor's page), claims (findings and causes of the
ledger). Without `--all` only flagged texts are printed, and the exit code is 1 if there are any. Sources are parsed,
not imported.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src" / "isometer", ROOT / "papers" / "src" / "isometer_papers")
EXEMPT = {"docs/style.md", "docs/trial.md"}  # one shows what it forbids; the other records a trial as it was planned
NO_PAGES = ("docs/trial/", "docs/trial-2/", "docs/trial-3/", "docs/_build/", "docs/ext/")
WORDS = ("report", "doctor/conditions", "doctor/diagnosis/checks", "doctor/causes", "metrics/_built_in.py")

TURNS = {
    "tells … apart": r"\btell(s|ing)?\b[^.;:]{0,40}\bapart\b",
    "told apart": r"\btold apart\b",
    "asks for": r"(?<!request )(?<!job )(?<!reader )(?<!you )\basks for\b",
    "ask for the same": r"\bsamples? asks? for\b",
    "multiply this up": r"\bmultiply this up\b",
    "multiply up": r"\bmultipl(y|ies|ying) up\b",
    "any more": r"\bany ?more\b(?! than| of| time)",
    "make a figure again": r"\bmake a figure again\b",
    "can be had": r"\bcan(not)? be had\b",
    "environment of your own": r"\benvironments? of (your|its|their) own\b",
    "torn apart": r"\btorn apart\b",
    "its own room": r"\b(its|their) own rooms?\b",
    "hand on": r"\bhand(s|ed|ing)? (it |them |what \w+ )?on\b",
    "anew": r"\banew\b",
    "nobody … any": r"\bharms? nobody\b",
    "whatever … is with": r"\bothers it is with\b",
    "no more than that": r"\band no more\b(?! than)",
    "worth a word": r"\bworth a word\b",
    "goes wrong with": r"\bgoes wrong with\b",
    "puts right": r"\bputs? right\b",
    "keeps apart": r"\bkeep(s|ing)? [\w ]{0,14}\bapart\b",
    "so that nothing": r"\bso that nothing\b",
    "in the place of": r"\bin the place of\b",
    "has it that": r"\bhas it that\b",
    "at hand": r"\bat hand\b",
    "hardly a": r"\bhardly an?\b",
    "is for you to": r"\bis for you to\b",
    "is no": r"(?<!there )\b(is|are) no (number|axis|finding|corner|spec|json|function|store|multiple|chain|claim"
    r"|promise|float64|gram|dense|metrics?|option|powers?|effect|safetensors|terminal)\b",
    "shows itself": r"\b(shows?|draws?|explains?) (itself|themselves)\b",
    "goes on where": r"\b(goes|go) on (where|with|from)\b|\bto go on\b",
    "whole or not": r"\bwhole or not\b|\b(arrive|arrived|written) whole\b",
    "what you ask for": r"\b(does|do) what you ask for\b",
    ", say": r"— .*, say$",
    "otherwise than": r"\botherwise than\b",
    "kindred": r"\bkindred\b",
    "clock on the wall": r"\bclock on the wall\b",
    "worth saying": r"\bworth saying\b",
    "counted apart": r"\bcounted apart\b",
    "the newest there are": r"\b(lowest|newest|cores|best) (that )?there are\b",
    "by a hair": r"\bby a hair\b",
    "what came": r"\bwhat came\b",
    "where depth leads": r"\bper layer where depth leads\b",
    "comes out": r"\bdoes the figure come out\b",
    "images asked for": r"\b(images|samples|runs|points) (were )?asked for\b",
    "unless given": r"\bunless given\b",
    "behind a layer": r"\bbehind (an? |the |every |each )?(batch norm|layer norm|norms?|relu|readout|activations?"
    r"|attention|layers?|weights|softmax)\b",
    "of several": r"(?:^|[.;:,] )of several\b",
    "derivative by": r"\b(gradients?|derivatives?|jacobian) by (the|its|their) (output|input|weights|parameters|layer"
    r"|model)\b",
    "turns of a repeat": r"\bturns? of (a|the|its)( one| nearest)? repeat\b",
    "does not fit": r"\b(checksum|digest|header) does not fit\b",
    "not a whole file": r"\bis not a whole (?!number)",
    "cut short": r"\bcut short\b",
    "expected as many": r"\bexpected as many(?! \w+ as)",
    "stands where": r"\bstands where\b",
    "from … = … on": r"\bfrom \w+ = \d+ on\b",
    "on the wall": r"\bon the wall\b",
    "by the letter": r"\bby the letter\b",
    "supposed and not said": r"\bsupposed and not said\b",
    "picks … out of": r"\bpicks? [\w ]{0,20}out of\b",
    "brings its own": r"\bbrings? (its|their) own\b",
    "looks whether": r"\blooks? whether\b",
    "hangs on": r"\bhangs on the\b",
    "where cosines go": r"\bwhere cosines go;",
    "has it anyway": r"\bhas it anyway\b",
}
"""Each turn of the style sheet, as a pattern."""
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in TURNS.items()}


@dataclass(frozen=True)
class Text:
    """One text that people read.

    Attributes:
        area: what kind of text it is.
        path: of its file, from the root of the repository.
        line: where it begins.
        words: the text itself.
    """

    area: str
    path: str
    line: int
    words: str

    @property
    def turns(self) -> list[str]:
        """The forbidden turns in it."""
        plain = " ".join(self.words.split())
        return [name for name, pattern in _PATTERNS.items() if pattern.search(plain)]


def main() -> int:
    """Print the texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", choices=[[], *AREAS], metavar="AREA")
    parser.add_argument("--all", action="store_true", help="also texts without a forbidden turn")
    asked = parser.parse_args()
    flagged = 0
    for text in texts(asked.areas or list(AREAS)):
        turns = text.turns
        flagged += bool(turns)
        if turns or asked.all:
            mark = f"  [{', '.join(turns)}]" if turns else ""
            print(f"{text.path}:{text.line}: {text.area}: {' '.join(text.words.split())[:300]}{mark}")
    print(f"{flagged} texts with a forbidden turn", file=sys.stderr)
    return 1 if flagged else 0


def texts(areas: list[str]) -> Iterator[Text]:
    """The texts of these areas."""
    for area in areas:
        yield from AREAS[area]()


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- pages -----------------------------------------------------------------------------------------------------------


def docs() -> Iterator[Text]:
    """Paragraphs of the pages, the README and the scripts that are pages; code is left out."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pages += sorted((ROOT / "docs" / "tutorials").glob("*.py"))
    for path in pages:
        name = _relative(path)
        if name not in EXEMPT and not name.startswith(NO_PAGES):
            yield from paragraphs("docs", path)


def papers() -> Iterator[Text]:
    """Paragraphs of the companion's pages; quotations of the papers and tables made from the ledger are left out."""
    folder = ROOT / "papers"
    made = ("figures", "second-reading")  # records, as they were computed or written
    docs = [path for path in sorted((folder / "docs").glob("*.md")) if not path.name.startswith(made)]
    pages = [
        folder / "README.md",
        *docs,
        *sorted((folder / "docs" / "tutorials").glob("*.py")),
    ]
    for path in pages:
        yield from paragraphs("papers", path)


def changelog() -> Iterator[Text]:
    """Entries of the changelog."""
    yield from paragraphs("changelog", ROOT / "CHANGELOG.md")


def paragraphs(area: str, path: Path) -> Iterator[Text]:
    """Blocks between blank lines, without fenced code; of a script, its comments."""
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if path.suffix == ".py":
            line = line[2:] if re.match(r"# (?!→)", line) else ""
        if line.lstrip().startswith("```"):
            fenced, line = not fenced, ""
        if block and (not line.strip() or fenced or re.match(r"\s*([-*|]|\d+\.) ?", line)):  # items and rows one by one
            yield Text(area, _relative(path), start, " ".join(block))
            block = []
        if line.strip() and not fenced:
            start = start if block else number
            block.append(line)


# --- sources ---------------------------------------------------------------------------------------------------------


def _modules(*parts: str) -> Iterator[tuple[Path, ast.Module]]:
    """Modules whose path has one of these parts; all without parts."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            if not parts or any(f"/{part}" in _relative(path) for part in parts):
                yield path, ast.parse(path.read_text(encoding="utf-8"))


def docstrings() -> Iterator[Text]:
    """Docstrings of what the stubs export, and of public methods of exported classes; examples are left out."""
    for source in SOURCES[:1]:
        exported = {(path.parent, name) for path in source.rglob("*.pyi") for name in _exports(path)}
        for path in sorted(source.rglob("*.py")):
            names = {name for folder, name in exported if path.is_relative_to(folder)}
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
                    yield from _documented(path, node)


def _exports(stub: Path) -> set[str]:
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    return {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}


def _documented(path: Path, node: ast.FunctionDef | ast.ClassDef) -> Iterator[Text]:
    text = ast.get_docstring(node)
    if text:
        yield Text("docstrings", _relative(path), node.lineno, re.sub(r"^\s*(>>>|\.\.\.).*$", "", text, flags=re.M))
    for inner in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
            yield from _documented(path, inner)


def errors() -> Iterator[Text]:
    """Texts inside `raise`."""
    for path, module in _modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Raise) and node.exc is not None:
                yield from _strings("errors", path, node.exc)


def help_texts() -> Iterator[Text]:
    """Docstrings of the commands, and the texts of the command line; docstrings of functions inside are left out."""
    for path, module in _modules("cli/"):
        _without_docstrings(module, keep=_is_command)
        yield from _strings("help", path, module)


def _is_command(node: ast.AST) -> bool:
    """Whether typer shows the docstring: a function with a decorator such as `@app.command()`."""
    decorators = getattr(node, "decorator_list", ())
    return any("command" in ast.unparse(one) or "callback" in ast.unparse(one) for one in decorators)


def _without_docstrings(module: ast.Module, keep: Callable[[ast.AST], bool] = lambda node: False) -> None:
    """Take docstrings out of a tree, except those of some nodes, and the texts below constants."""
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and not keep(node):
            node.body = [one for one in node.body if not (isinstance(one, ast.Expr) and _is_text(one.value))]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def doctor() -> Iterator[Text]:
    """Texts of conditions, prescriptions, findings, causes, metrics and reports; docstrings are left out."""
    for path, module in _modules(*(f"isometer/{part}" for part in WORDS)):
        _without_docstrings(module)
        yield from _strings("doctor", path, module)


def explorer() -> Iterator[Text]:
    """Texts of the labs and of what they compute; docstrings are left out."""
    for path, module in _modules("explore/"):
        _without_docstrings(module)
        yield from _strings("explorer", path, module)
    for path in sorted((SOURCES[0] / "explore" / "assets").glob("*.js")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for words in re.findall(r"[\"'`]([^\"'`]+)[\"'`]", line):
                if len(words.split()) > 1:
                    yield Text("explorer", _relative(path), number, words)


def claims() -> Iterator[Text]:
    """What the ledger says in our words: its findings and the causes of failures."""
    folder = SOURCES[1] / "claims"
    for path in sorted((*folder.rglob("findings.toml"), *folder.rglob("causes.toml"))):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if len(line.split()) > 3 and not line.lstrip().startswith("#"):
                yield Text("claims", _relative(path), number, line)


def scripts() -> Iterator[Text]:
    """The texts of the doctor's page."""
    for path in sorted((SOURCES[0] / "report" / "assets").glob("page.html")):
        text = re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield Text("scripts", _relative(path), number, line)


def _strings(area: str, path: Path, tree: ast.AST) -> Iterator[Text]:
    """String literals with at least two words; the gaps of an f-string count as one word each."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            words = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            words = node.value
        else:
            continue
        if len(words.split()) > 1:
            yield Text(area, _relative(path), node.lineno, words)


AREAS: dict[str, Callable[[], Iterator[Text]]] = {
    "docs": docs,
    "papers": papers,
    "changelog": changelog,
    "docstrings": docstrings,
    "errors": errors,
    "help": help_texts,
    "doctor": doctor,
    "explorer": explorer,
    "claims": claims,
    "scripts": scripts,
}

if __name__ == "__main__":
    sys.exit(main())
