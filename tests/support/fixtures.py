"""Fixtures of both test trees; their `conftest.py` import them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chromium import CHROMIUM, FLAGS


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; tests that need it are skipped without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'isometer[test]'")
    if CHROMIUM is None:
        pytest.skip("no Chromium; install one: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()
