"""The explorer in a browser: a tab that notes every complaint and every request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.browser import listen

PATIENCE = 120_000  # milliseconds; a loaded machine is slow, and slowness is judged on its own
DRAWN = "id => { const g = document.querySelector(`#${id} .js-plotly-plot`); return !!g && g.data.length > 0; }"
TRACE = """([id, name]) => { const t = document.querySelector(`#${id} .js-plotly-plot`).data.find(t => t.name === name);
    return t ? {x: [...t.x], y: [...t.y]} : null; }"""
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@dataclass
class Tab:
    """A tab with everything it complained about or asked for."""

    page: Any
    url: str
    trouble: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.url.rstrip("/") + path)
        self.page.wait_for_selector(".lab", timeout=PATIENCE)

    def drawn(self, *graphs: str) -> None:
        for graph in graphs:
            self.page.wait_for_function(DRAWN, arg=graph, timeout=PATIENCE)

    def trace(self, graph: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(TRACE, [graph, name])
        assert found is not None, f"{graph} has no trace {name}"
        return found

    def until(self, script: str, arg: Any = None) -> None:
        self.page.wait_for_function(script, arg=arg, timeout=PATIENCE)

    def slide(self, key: str, value: float) -> None:
        """Move a slider as a hand does: the value changes and the element says so."""
        self.page.eval_on_selector(
            f"#control-{key}",
            """(field, value) => {
                Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, value);
                field.dispatchEvent(new Event('input', {bubbles: true})); }""",
            str(value),
        )

    def fine(self) -> None:
        assert self.trouble == []
        assert [url for url in self.requests if not url.startswith((self.url, "data:", "blob:"))] == []


def tabs_of(browser: Any, url: str) -> Callable[..., Tab]:
    """How a tab of the explorer at `url` is opened: with a path and options of a browser context."""

    def opened(path: str, **options: Any) -> Tab:
        page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}).new_page()
        made = Tab(page, url)
        listen(page, made.trouble, made.requests)
        page.on(
            "response", lambda answer: answer.status >= 400 and made.trouble.append(f"{answer.status} {answer.url}")
        )
        made.go(path)
        return made

    return opened


def slowdown() -> float:
    """By how much the clock on the wall runs faster than this process is served; 1 on an idle machine."""
    wall, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.5:
        sum(range(1000))
    return max(1.0, (time.perf_counter() - wall) / (time.process_time() - own))


def seconds_until(tab: Tab, act: Callable[[], object], script: str, arg: Any = None) -> float:
    start = time.perf_counter()
    act()
    tab.until(script, arg)
    return time.perf_counter() - start


def fits_a_phone(tab: Tab) -> None:
    """Nothing sticks out, and what is touched is large enough."""
    tab.until("() => !document.querySelector('[data-dash-is-loading=true]')")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out"
    small = tab.page.evaluate(
        """() => [...document.querySelectorAll('nav a, #main button, #main select')].filter(e => e.offsetParent)
            .map(e => [e.textContent, e.getBoundingClientRect().height]).filter(([, height]) => height < 24)"""
    )
    assert small == [], "large enough for a finger"
    tab.fine()


def callback(output: str, values: Any) -> dict[str, Any]:
    """What a browser sends when the values of the simulation change, whatever they are."""
    return {
        "output": output,
        "outputs": {"id": output.rpartition(".")[0], "property": "data"},
        "inputs": [{"id": "depth-part-simulated", "property": "data", "value": values}],
        "state": [{"id": "tab", "property": "data", "value": "forger"}],
        "changedPropIds": ["depth-part-simulated.data"],
    }
