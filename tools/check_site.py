"""Check the site that `make docs` built: every link inside it leads somewhere, and pages fit a phone.

    python tools/check_site.py [--phone] [--pictures DIR] [FOLDER]

Links and anchors are read from the pages. With `--phone` every page is opened in Chromium at a width of 390 pixels, in
light and in dark; nothing may stick out of the page. `--pictures` keeps a screenshot of each, and one at 1280 pixels.
The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chromium import CHROMIUM, FLAGS

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESK = {"viewport": {"width": 1280, "height": 900}}


class _Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        link = found.get("href") if tag in ("a", "link") else found.get("src") if tag in ("img", "script") else None
        if link:
            self.links.append(link)


def read(site: Path) -> dict[Path, _Page]:
    """Every page by its path; sources that the theme highlights are left out."""
    return {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def broken_links(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Links that lead to no file or to no anchor of it; addresses outside are not followed."""
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            where = path.relative_to(site)
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} has no such anchor"


def overflowing(pages: dict[Path, _Page], site: Path, pictures: Path | None) -> Iterator[str]:
    """Pages that are wider than a phone, in light or in dark."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for scheme in ("light", "dark"):
            views = {"phone": browser.new_context(color_scheme=scheme, **PHONE).new_page()}
            if pictures is not None:
                views["desk"] = browser.new_context(color_scheme=scheme, **DESK).new_page()
            for path in pages:
                name = path.relative_to(site)
                for view, tab in views.items():
                    tab.goto(path.as_uri())
                    wide, window = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
                    if wide > (390 if view == "phone" else window):
                        yield f"{name}: {wide} pixels wide on a {view}, {scheme}"
                    if pictures is not None:
                        shot = f"{str(name.with_suffix('')).replace('/', '-')}-{view}-{scheme}.png"
                        tab.screenshot(path=pictures / shot, full_page=view == "desk")
        browser.close()


def main() -> int:
    """Check and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SITE)
    parser.add_argument("--phone", action="store_true", help="also open every page in Chromium")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="with --phone: keep screenshots here")
    asked = parser.parse_args()
    site = asked.folder.resolve()
    pages = read(site)
    if not pages:
        sys.exit(f"there are no pages in {site} — run make docs")
    wrong = list(broken_links(pages, site))
    if asked.phone:
        if CHROMIUM is None:
            sys.exit("no Chromium; install one: apt-get install chromium")
        if asked.pictures is not None:
            asked.pictures.mkdir(parents=True, exist_ok=True)
        wrong += overflowing(pages, site, asked.pictures)
    for line in wrong:
        print(line)
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links: {len(wrong) or 'nothing'} wrong", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
