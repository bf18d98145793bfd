"""Numbers from outside, and estimates of work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from isometer.checks import LARGEST_SEED, real_number, seed_number, whole_number
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.simulate import ergodic_average, simulate
from isometer.simulate._work import Sizes, simulation_work
from isometer.spec import PowerLaw, Spec
from isometer.theory.prediction import predict
from isometer.work import GIB, TooMuchWorkError, Work, allow, allowance, check_work, parsed_memory, parsed_seconds


@pytest.mark.parametrize(
    "value", [0, -1, 11, 10**18, pytest.param(10**5000, id="digits"), True, 2.0, "3", None, math.nan, np.float64(2)]
)
def test_no_whole_number_from_1_to_10(value: Any) -> None:
    with pytest.raises(IsometerError, match=r"^depth is .*; expected a whole number from 1 to 10 — pass one$"):
        whole_number(value, "depth", high=10)


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf, -0.1, 1.1, 10**400, "1", None, True, 1j])
def test_no_real_number_from_0_to_1(value: Any) -> None:
    with pytest.raises(IsometerError, match=r"^share is .*; expected a finite number from 0 to 1 — pass one$"):
        real_number(value, "share", low=0.0, high=1.0)


def test_numbers_of_numpy_are_numbers() -> None:
    assert whole_number(np.int8(3), "depth") == 3
    assert real_number(np.float32(0.5), "share") == 0.5
    assert seed_number(LARGEST_SEED) == LARGEST_SEED


@pytest.mark.parametrize("text", ["", "much", "-1GiB", "nan", "0", "1 XB", "inf"])
def test_no_memory_and_no_time(text: str) -> None:
    for parsed in (parsed_memory, parsed_seconds):
        with pytest.raises(IsometerError, match="expected a"):
            parsed(text)


def test_what_is_allowed_is_announced() -> None:
    told: list[str] = []
    with allow(memory="3GiB", seconds="2h", announce=told.append):
        check_work("it", Work(2.5 * GIB, 5000.0))
        check_work("it", Work(1.0, 1.0))
    assert told == ["it takes about 83 min and 2.5 GiB of memory"]
    assert allowance().memory == 2 * GIB


def test_more_than_is_free_is_refused_whatever_is_allowed() -> None:
    with allow(memory="1000TiB"), pytest.raises(TooMuchWorkError, match=r"GiB are free — use .* more memory"):
        check_work("it", Work(1e15, 1.0), {"samples": (1000, lambda n: Work(1e12 * n / 1000, 1.0))})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 10**9}, "depth is 1000000000; expected a whole number from 1 to 10000000"),
        ({"width": 10**18}, "width is 1000000000000000000; expected"),
        ({"bias_variance": 1e300}, r"bias_variance is 1e\+300; expected a finite number from 0 to 1e\+100"),
        ({"gain": math.nan}, "gain is nan; expected a finite number"),
        ({"gain": PowerLaw(layer=1e50)}, "is beyond float64 at layer 5 of 5; expected a finite number"),
        ({"residual": -math.inf}, "residual is -inf; expected a finite number .*, or inf"),
    ],
)
def test_numbers_of_a_spec(options: dict[str, Any], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        Spec(**{"width": 8, "depth": 5, **options})


def test_a_deep_spec_takes_no_time() -> None:
    spec = Spec(width=8, depth=10**7)
    with pytest.raises(TooMuchWorkError, match=r"needs about .* GiB .* — use at most .* layers"):
        simulate(spec, np.ones((2, 8)), runs=100)
    with pytest.raises(TooMuchWorkError, match="the prediction"):
        predict(spec, np.ones((2, 8)))


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "0"])
def test_seeds(seed: Any) -> None:
    with pytest.raises(IsometerError, match=r"seed is .*; expected a whole number from 0"):
        make_batch("gaussian", 2, 8, seed=seed)
    with pytest.raises(IsometerError, match=r"seed is .*; expected a whole number from 0"):
        simulate(Spec(width=8, depth=1), np.ones((2, 8)), seed=seed)


def test_the_memory_of_many_samples_is_that_of_their_pairs() -> None:
    """A thousand samples of eight features: a few matrices of pairs at a time, not those of all runs and layers."""
    work = simulation_work(Sizes.of(Spec(width=8, depth=50), "gram", 1000, 16, metrics=10, backward=False))
    assert work.memory < 0.5 * GIB
    with pytest.raises(
        TooMuchWorkError, match=r"needs about .* GiB of memory; 2 GiB are allowed — use at most \d+ samples"
    ):
        simulate(Spec(width=8, depth=2), np.ones((30_000, 8)))


def test_chains_without_a_scale_have_no_averages_of_it() -> None:
    batch = make_batch("gaussian", 4, 8)
    for options in ({"metrics": ["log_norm"]}, {"metrics": ["stable_rank"], "moments": True}):
        with pytest.raises(IsometerError, match="depends on the scale"):
            ergodic_average(Spec(width=8, depth=1), batch, layers=320, batches=4, **options)  # type: ignore[arg-type]
    ergodic_average(Spec(width=8, depth=1), batch, layers=64, batches=4, metrics=["stable_rank"])


def test_one_feature_has_moments() -> None:
    spec = Spec(width=1, depth=1, activation="tanh", bias_variance=0.5)
    found = ergodic_average(spec, np.ones((3, 1)), layers=64, batches=4, metrics=["second_moment"], moments=True)
    assert all(np.isfinite(found[name].values).all() for name in found.data_vars)
    assert float(found["offdiagonal_mean"]) == 0.0
