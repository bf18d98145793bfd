"""001, §4.2–4.3: what normalisation does to isometry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import above, at_least, deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.gap_steps import (
    batch_norm_bound,
    batch_norm_rows,
    column_lengths,
    determinant,
    gain_as_printed,
    gram_of,
    isometry_of,
    layer_norm_columns,
    length_bound,
    length_gain,
    unit_columns,
)


def _matrices(rng: Rng, count: int) -> Iterator[Instance]:
    """Samples as columns, of very different lengths or almost parallel."""
    for hand in ([[1, 0], [0, 1]], [[2, 0], [0, 1]], [[1, 1], [0, 1]], [[1, 2], [0, 0]], [[1, 0], [0, 1], [1, 1]]):
        yield {"X": np.array(hand, dtype=float)}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        d = n + int(rng.integers(0, 4))
        x = rng.standard_normal((d, n)) + float(rng.choice([0, 0, 2])) * rng.standard_normal((d, 1))
        yield {"X": x * np.exp(rng.uniform(-2, 2, n))}


def _features(rng: Rng, count: int) -> Iterator[Instance]:
    """d features of n ≥ d samples, and a few with n < d."""
    for x in ([[1, 0]], [[1, 0], [0, 1]], [[2, 0], [0, 1]], [[1, 0, 0], [0, 1, 0]], [[1], [2]]):
        yield {"X": np.array(x, dtype=float)}
    for _ in range(count):
        d = int(rng.integers(1, 5))
        n = d + int(rng.integers(0, 5)) if rng.integers(8) else max(1, d - 1)
        yield {"X": rng.standard_normal((d, n)) * np.exp(rng.uniform(-2, 2, (d, 1)))}


def _square(rng: Rng, count: int) -> Iterator[Instance]:
    """Few samples of many features."""
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0], [0.125, 0.125]])}
    for _ in range(count):
        n = int(rng.integers(2, 4))
        d = n + int(rng.integers(0, 4))
        yield {"X": rng.standard_normal((d, n)) * np.exp(rng.uniform(-3, 3, (d, 1)))}


def _networks(rng: Rng, count: int) -> Iterator[Instance]:
    """Samples as columns, and a linear network that makes them orthonormal."""
    for samples, weights in (([[1, 1], [0, 1]], [[1, -1], [0, 1]]), ([[2, 1], [1, 1]], [[1, -1], [-1, 2]])):
        yield {"X": np.array(samples, dtype=float), "W": np.array(weights, dtype=float)}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        x = rng.standard_normal((n, n)) + 2 * np.eye(n)
        yield {"X": x, "W": np.linalg.inv(x)}


def _features_of(i: Instance) -> Numeric:
    return i["W"] @ i["X"]


def _cosine(samples: Numeric) -> Numeric:
    """Of the first two samples."""
    unit = unit_columns(samples)
    return (unit[:, 0] * unit[:, 1]).sum()


def _length_pairs(rng: Rng, count: int) -> Iterator[Instance]:
    """Lengths of two batches, the first with the larger variance over squared mean."""
    yield {"a": np.array([1.0, 1.0, 10.0]), "b": np.array([1.0, 100.0, 100.0])}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        yield {"a": np.exp(rng.uniform(-2, 2, n)), "b": np.exp(rng.uniform(-2, 2, n))}


def _product_of_determinants(i: Instance, square: Numeric) -> Numeric:
    """det(G̃) det(D)², D the diagonal matrix of lengths over the root of `square`."""
    lengths = column_lengths(i["X"])
    volume = determinant(gram_of(unit_columns(i["X"])))
    for length in lengths:
        volume = volume * length * length / square
    return volume


def _difference(samples: Numeric, onto: Numeric) -> Numeric:
    return abs(samples - onto).max()


def _on_sphere(samples: Numeric) -> Numeric:
    """x_i scaled to length √d."""
    return len(samples) ** 0.5 * unit_columns(samples)


def _root_mean_square(samples: Numeric) -> Numeric:
    """RMS of eq. 5.13."""
    return samples / ((samples * samples).sum(axis=0) / len(samples)) ** 0.5


def _box(d: int, n: int) -> Search:
    """An adversary over d × n matrices whose entries range over all of ℝ."""
    return Search(lambda p: {"X": np.tan(3.0 * (np.asarray(p) - 0.5)).reshape(d, n)}, d * n)


def _before(i: Instance) -> Numeric:
    return isometry_of(gram_of(i["X"]))


def _bounded(i: Instance) -> Numeric:
    return _before(i) * length_bound(column_lengths(i["X"]))


def _ratio(i: Instance) -> Numeric:
    return isometry_of(gram_of(unit_columns(i["X"]))) / _before(i)


def _independent(i: Instance) -> bool:
    return bool((column_lengths(i["X"]) > 0).all() and _before(i) > 1e-3)


def _nonzero(i: Instance) -> bool:
    return bool((column_lengths(i["X"]) > 0).all())


def _spread(i: Instance) -> bool:
    """No sample has equal features, and the samples are independent."""
    x = i["X"]
    return bool(_independent(i) and len(x) > 1 and (np.ptp(x, axis=0) > 1e-6).all())


def _covariance(x: Numeric) -> Numeric:
    return isometry_of(gram_of(x.T))


def _rows(i: Instance) -> bool:
    return bool((np.abs(i["X"]).max(axis=1) > 0).all() and _covariance(i["X"]) > 1e-3)


def _varied(i: Instance) -> bool:
    return _rows(i) and bool((np.ptp(i["X"], axis=1) > 1e-6).all())


def _after_bn(recentre: bool) -> Callable[[Instance], Numeric]:
    return lambda i: _covariance(batch_norm_rows(i["X"], recentre))


def _printed_bn(i: Instance) -> Numeric:
    x = i["X"]
    return _covariance(x) * batch_norm_bound(column_lengths(x.T), x.shape[1])


def _true_bn(i: Instance) -> Numeric:
    return _covariance(i["X"]) * length_bound(column_lengths(i["X"].T))


def _full(i: Instance) -> bool:
    return i["X"].shape[1] <= len(i["X"]) and bool((np.abs(i["X"]).max(axis=1) > 0).all()) and _before(i) > 1e-3


SAMPLES = {"random": _matrices}


FEATURES = {"random": _features}


CLAIMS = (
    deterministic(
        "001/def-4.1:preserves",
        equal(lambda i: _cosine(_features_of(i)), lambda i: _cosine(i["X"])),
        {"networks": _networks},
        scale=1,
        tolerance=1e-7,
        hypotheses=lambda i: bool(isometry_of(gram_of(_features_of(i))) > 1 - 1e-9),
    ),
    deterministic(
        "001/def-4.1:preserves#corrected",
        equal(
            lambda i: ((_features_of(i)[:, 0] - _features_of(i)[:, 1]) ** 2).sum(),
            lambda i: 2 * sum(gram_of(_features_of(i)).diagonal()) / len(i["X"]),
        ),
        {"networks": _networks},
        tolerance=1e-7,
        hypotheses=lambda i: bool(isometry_of(gram_of(_features_of(i))) > 1 - 1e-9),
    ),
    deterministic(
        "001/thm-4.3",
        at_least(lambda i: isometry_of(gram_of(unit_columns(i["X"]))), _bounded),
        SAMPLES,
        hypotheses=_nonzero,
        scale=1,
        search=_box(3, 2),
    ),
    deterministic(
        "001/thm-4.3:diverse",
        above(lambda i: length_gain(i["a"]), lambda i: length_gain(i["b"])),
        {"lengths": _length_pairs},
        hypotheses=lambda i: bool(length_bound(i["a"]) > length_bound(i["b"])),
    ),
    deterministic(
        "001/thm-4.3:factor",
        equal(lambda i: determinant(gram_of(i["X"])), lambda i: _product_of_determinants(i, len(i["X"]))),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/thm-4.3:factor#corrected",
        equal(lambda i: determinant(gram_of(i["X"])), lambda i: _product_of_determinants(i, 1)),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/thm-4.3:trace",
        equal(lambda i: sum(gram_of(unit_columns(i["X"])).diagonal()) / i["X"].shape[1], lambda i: len(i["X"])),
        SAMPLES,
        hypotheses=_nonzero,
    ),
    deterministic(
        "001/thm-4.3:trace#corrected",
        equal(lambda i: sum(gram_of(unit_columns(i["X"])).diagonal()) / i["X"].shape[1], 1),
        SAMPLES,
        hypotheses=_nonzero,
    ),
    deterministic(
        "001/thm-4.3:eq-4.5",
        equal(_ratio, lambda i: length_gain(column_lengths(i["X"]))),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/thm-4.3:eq-4.6",
        equal(_ratio, lambda i: gain_as_printed(column_lengths(i["X"]), len(i["X"]))),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/thm-4.3:eq-4.6#corrected",
        equal(_ratio, lambda i: length_gain(column_lengths(i["X"]))),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/thm-4.3:eq-4.7",
        equal(_ratio, lambda i: length_bound(column_lengths(i["X"]))),
        SAMPLES,
        hypotheses=_independent,
        tolerance=1e-7,
    ),
    deterministic(
        "001/cor-4.4",
        at_least(lambda i: isometry_of(gram_of(layer_norm_columns(i["X"]))), _bounded),
        SAMPLES,
        hypotheses=_spread,
        scale=1,
    ),
    deterministic(
        "001/cor-4.4#corrected",
        at_least(lambda i: isometry_of(gram_of(len(i["X"]) ** 0.5 * unit_columns(i["X"]))), _bounded),
        SAMPLES,
        hypotheses=_nonzero,
        scale=1,
        search=_box(3, 2),
    ),
    deterministic(
        "001/cor-4.4:projection",
        vanishes(lambda i: _difference(layer_norm_columns(i["X"]), _on_sphere(i["X"]))),
        SAMPLES,
        hypotheses=_spread,
    ),
    deterministic(
        "001/cor-4.4:projection#corrected",
        vanishes(lambda i: _difference(_root_mean_square(i["X"]), _on_sphere(i["X"]))),
        SAMPLES,
        hypotheses=_nonzero,
    ),
    deterministic("001/cor-4.5:no-mean", at_least(_after_bn(False), _printed_bn), FEATURES, hypotheses=_rows, scale=1),
    deterministic("001/cor-4.5:mean", at_least(_after_bn(True), _printed_bn), FEATURES, hypotheses=_varied, scale=1),
    deterministic(
        "001/cor-4.5#corrected",
        at_least(_after_bn(False), _true_bn),
        FEATURES,
        hypotheses=_rows,
        scale=1,
        search=_box(2, 3),
    ),
    deterministic(
        "001/claim-4.deterministic:layer-norm",
        at_least(lambda i: isometry_of(gram_of(layer_norm_columns(i["X"]))), _before),
        SAMPLES,
        hypotheses=_spread,
        scale=1,
    ),
    deterministic(
        "001/claim-4.deterministic:covariance",
        at_least(_after_bn(False), lambda i: _covariance(i["X"])),
        FEATURES,
        hypotheses=_rows,
        scale=1,
        search=_box(2, 3),
    ),
    deterministic(
        "001/claim-4.deterministic:gram",
        at_least(lambda i: isometry_of(gram_of(batch_norm_rows(i["X"], False))), _before),
        {"few": _square},
        hypotheses=_full,
        scale=1,
    ),
)
