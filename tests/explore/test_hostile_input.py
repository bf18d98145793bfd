"""Expressions and requests that mean harm: nothing is executed, and limits hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isometer.errors import IsometerError

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import LIMITS, Computation, Desk, make_app
from isometer.explore._requests import (
    card_jobs,
    geometry_job,
    phase_jobs,
    prediction_job,
)
from isometer.explore._state import ActivationState, DepthState
from support.explorer import callback

ATTACKS = (
    "__import__('os').system('touch {mark}')",
    "open('{mark}', 'w')",
    "().__class__.__bases__[0].__subclasses__()",
    "exec(\"open('{mark}','w')\")",
    "eval('1')",
    "lambda x: x",
    "x.__class__",
    "[x for x in (1,)]",
    "import:os:getcwd",
    "9**9**9**9*x",
    "x" + "+x" * 150,
    "(" * 90 + "x" + ")" * 90,
    "<script>alert(1)</script>",
    "{{x}}",
    "x; import os",
    "\x00x",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_expressions_do_nothing(attack: str, desk: Desk, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = attack.replace("{mark}", str(mark))
    state, _ = ActivationState.read({"activations": text, "phase": text})
    answers = desk.ask("attack", "cards", [*card_jobs(state), *phase_jobs(state)])
    net, _ = DepthState.read({"activation": text, "depth": "2", "width": "4", "batch": "3"})
    answers += desk.ask("attack", "net", [prediction_job(net), geometry_job(net)])
    assert all(isinstance(one, IsometerError) for one in answers) or text in ("\x00x", ATTACKS[10], ATTACKS[11]), (
        answers
    )
    assert not mark.exists()


def test_forged_requests_stay_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    used, seen = Desk(workers=1), list[Computation]()

    def ask(tab: str, slot: str, jobs: Sequence[Computation]) -> list[Any]:
        seen.extend(jobs)
        return [IsometerError("not computed here") for _ in jobs]

    monkeypatch.setattr(used, "ask", ask)
    app = make_app(desk=used)
    forged = {"depth": 10**9, "width": "1e18", "batch": [1], "runs": {"a": 1}, "weights": "uniform", "norm": "../x"}
    client = app.server.test_client()
    told = [one for one in client.get("/_dash-dependencies").json if one["inputs"][0]["id"] == "depth-part-simulated"]
    for one in told:
        client.post("/_dash-update-component", json=callback(one["output"], forged))
    [asked] = seen
    net = asked.arguments["net"]
    assert net["width"] == LIMITS["width"].high
    assert net["depth"] * (net["width"] ** 2 + 3 * net["width"] * asked.arguments["batch"]) <= LIMITS["kept"].high
    assert net["norm"] == "none"
    assert asked.arguments["runs"] == DepthState().runs
