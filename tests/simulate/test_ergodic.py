"""Long chains: averages, their errors, and the checks of stationarity and symmetry."""

import math
import resource

import numpy as np
import pytest

from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.simulate import ergodic_average, simulate
from isometer.simulate._ergodic import _blocked, _error
from isometer.spec import Spec, recurrence


def test_time_averages_agree_with_averages_over_runs() -> None:
    """Two independent estimates of E r at d = 16: their difference is within 4.5 standard errors."""
    spec = recurrence("002/eq-5", width=16, depth=60)
    batch = make_batch("gaussian", 16, 16)
    runs = simulate(spec, batch, runs=300, metrics=["stable_rank"], seed=1)["stable_rank"].values[:, -1]
    time = ergodic_average(spec, batch, layers=8000, metrics=["stable_rank"], seed=2)
    error = math.hypot(runs.std(ddof=1) / math.sqrt(runs.size), float(time["standard_error"][0]))
    assert abs(runs.mean() - float(time["mean"][0])) < 4.5 * error


def test_checks_of_stationarity_and_symmetry_pass_for_002() -> None:
    spec = recurrence("002/eq-5", width=8, depth=1)
    batch = make_batch("gaussian", 8, 8)
    found = ergodic_average(spec, batch, layers=6400, chains=2, metrics=["stable_rank", "soft_rank"], moments=True)
    assert (np.abs(found["drift"].values) < 4.5).all()
    assert (np.abs(found["halves"].values) < 4.5).all()
    assert abs(float(found["offdiagonal_mean"])) < 4.5 * float(found["offdiagonal_error"])
    assert float(found["offdiagonal_p"]) > 1e-4
    assert 0 < float(found["regularity"]) < 1  # 002/lem-15
    # 002/eq-64-66 at γ = ∞ is not proved; the numbers are those of the definition all the same
    assert float(found["regularity_error"]) < 0.05 * float(found["regularity"])


def test_checks_fail_where_they_should() -> None:
    """Without burn-in and mixing slowly the chain drifts; weights with a mean break the symmetry."""
    slow = recurrence("002/eq-5", width=8, depth=1, residual=0.02)
    batch = make_batch("degenerate:1", 8, 8) + 1e-3 * make_batch("gaussian", 8, 8, seed=1)
    drifting = ergodic_average(slow, batch, layers=1600, burn_in=0, metrics=["stable_rank"])
    assert abs(float(drifting["halves"][0])) > 5
    skewed = recurrence("002/eq-5", width=8, depth=1, weights="asymmetric", weight_scaling="fan_in")
    found = ergodic_average(skewed, make_batch("gaussian", 8, 8), layers=1600, metrics=["stable_rank"], moments=True)
    assert abs(float(found["offdiagonal_mean"])) > 5 * float(found["offdiagonal_error"])
    assert float(found["offdiagonal_p"]) < 1e-6


def test_seeds_reproduce_and_memory_is_flat() -> None:
    spec = recurrence("002/eq-5", width=16, depth=1)
    batch = make_batch("gaussian", 16, 16)
    short = ergodic_average(spec, batch, layers=1024, metrics=["soft_rank"], seed=4)
    assert short.equals(ergodic_average(spec, batch, layers=1024, metrics=["soft_rank"], seed=4))
    assert not short.equals(ergodic_average(spec, batch, layers=1024, metrics=["soft_rank"], seed=5))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ergodic_average(spec, batch, layers=8192, metrics=["soft_rank"], seed=4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024  # kB


def test_the_gram_engine_has_the_same_averages() -> None:
    """Gaussian weights, n < d: both engines within 4.5 standard errors of each other."""
    spec = recurrence("003/net-bn-linear", width=24, depth=1)
    batch = make_batch("gaussian", 4, 24)
    first = ergodic_average(spec, batch, layers=4000, metrics=["orthogonality_gap"], seed=1, engine="gram")
    second = ergodic_average(spec, batch, layers=4000, metrics=["orthogonality_gap"], seed=2, engine="dense")
    error = math.hypot(float(first["standard_error"][0]), float(second["standard_error"][0]))
    assert abs(float(first["mean"][0] - second["mean"][0])) < 4.5 * error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers is 0; expected a whole number from 1 to"),
        ({"layers": 100}, "layers is 100; expected 256 for 32 batches"),
        ({"layers": 1000, "burn_in": -1}, "burn_in is -1; expected a whole number from 0 to"),
        ({"layers": 1000, "metrics": ["gradient_log_norm"]}, "gradients have no time average"),
        ({"layers": 1000, "engine": "gram"}, "engine='gram' with weights='uniform'"),
    ],
)
def test_bad_input_is_explained(options: dict[str, object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        ergodic_average(recurrence("002/eq-5", width=8, depth=1), make_batch("gaussian", 8, 8), **options)  # type: ignore[arg-type]


def test_changing_widths_cannot_repeat() -> None:
    with pytest.raises(IsometerError, match="needs equal widths"):
        ergodic_average(Spec(width=(8, 4)), make_batch("gaussian", 8, 8), layers=1000)


def test_errors_know_that_neighbouring_batches_may_be_alike() -> None:
    """Chains that hardly move have the error of their means; independent batches keep theirs, up to some bias."""
    rng = np.random.default_rng(0)
    chains = rng.standard_normal((8, 1))
    stuck = _blocked(chains + 0.01 * rng.standard_normal((8, 32)), _error)
    assert stuck == pytest.approx(_error(chains[:, 0]), rel=0.02)
    ratios = []
    for _ in range(200):
        free = rng.standard_normal((8, 32))
        ratios.append(float(_blocked(free, _error)) / float(_error(free.ravel())))
    assert min(ratios) >= 1
    assert np.mean(ratios) < 1.4


def test_measuring_fewer_layers_gives_the_same_average() -> None:
    """Both are within three of their joint standard errors (fixed seed)."""
    spec = recurrence("002/eq-5", width=8, depth=1)
    batch = make_batch("gaussian", 8, 8)
    found = [ergodic_average(spec, batch, layers=6400, every=k, chains=4, moments=True) for k in (1, 4)]
    for name, error in (("mean", "standard_error"), ("regularity", "regularity_error")):
        difference = abs(found[0][name] - found[1][name])
        assert bool((difference <= 3 * np.hypot(found[0][error], found[1][error])).all())
    with pytest.raises(IsometerError, match="batches of 8"):
        ergodic_average(spec, batch, layers=600, every=4)
