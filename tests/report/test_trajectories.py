"""What a simulation says in words: only what its runs support."""

from __future__ import annotations

from isometer.data import make_batch
from isometer.report._trajectories import conclusions
from isometer.simulate import simulate
from isometer.spec import Spec
from isometer.trajectory import summarize


def test_few_runs_do_not_say_that_cosines_stay() -> None:
    spec = Spec(width=8, depth=5, activation="relu")
    few = summarize(simulate(spec, make_batch("gaussian", 50, 8), runs=2, metrics=["mean_abs_cosine"], seed=0))
    assert "so few runs do not show" in conclusions(few)[0]
    wide = Spec(width=400, depth=1, activation="identity")
    many = summarize(simulate(wide, make_batch("gaussian", 4, 400), runs=20, metrics=["mean_abs_cosine"], seed=0))
    assert conclusions(many)[0].startswith("Cosines stay as they were")
