"""`predict`: what theory says a network does to a batch, as a trajectory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from isometer.checks import MOST_RUNS, check_entries, whole_number
from isometer.data._batches import batch_for
from isometer.errors import IsometerError
from isometer.metrics._sequences import check_sequences
from isometer.spec import Chain, Spec
from isometer.spec._chain import chain_only
from isometer.theory.prediction._backward import gradient_log_norms
from isometer.theory.prediction._compositions import network_values
from isometer.theory.prediction._coverage import check_covered
from isometer.theory.prediction._fluctuations import LARGEST, band_gap, gram_laws
from isometer.theory.prediction._forward import Forward
from isometer.theory.prediction._limits import limits
from isometer.theory.prediction._measures import GRADIENT, checked_metrics, half_width, measured, measured_by_layer
from isometer.theory.prediction._work import check_band_work, check_prediction_work
from isometer.trajectory import DEFAULT_METRICS, trajectory, versions

Floats = NDArray[np.float64]
_DRAWS = 384


def predict(
    spec: Spec,
    batch: ArrayLike | str | None = None,
    *,
    gram: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    backward: bool = False,
    at: Literal["post", "pre"] = "post",
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """What happens to a batch in a network of infinite width, in the variables of `simulate`.

    Features that leave the weights are Gaussian at infinite width; their covariance follows from the Gram matrix that
    enters, layer by layer, exactly where there is a formula and otherwise by quasi-Monte Carlo (about three digits).
    Gradients are those of a Gaussian cotangent at the output, with backward weights taken as independent of forward
    ones. Where features pass a skip connection the input's features count as Gaussian without mean too, except at a
    norm over features, which sees their mean.

    With positions, metrics are those of samples with all positions side by side, and `gradient_log_norm` is that of
    all weights of a layer together.

    Args:
        spec: the network; its widths enter scales only.
        batch: the input `(n, d)`, or `(n, d, *positions)`; or ten samples by name, `"correlated:0.9"` (see
            `isometer.data.make_batch`), Gaussian ones where neither is given.
        gram: or its Gram matrix `H Hᵀ / d`, which suffices unless steps precede the first weights; Gaussian features
            are assumed then.
        metrics: names of `isometer.theory.prediction.predicted_metrics()`; the common ones by default.
        backward: also `gradient_log_norm`.
        at: what a layer returns (`"post"`) or what enters its last activation (`"pre"`).
        progress: called as `progress(done, total)` in layers.

    Returns:
        A trajectory of one run. Attributes: `engine` is `"theory"`; `fixed_point` of the layer or block that is
        repeated (JSON: `diagonal`, `off_diagonal`, `condition_number`, or null), `local_rate`,
        `gradient_growth_per_layer`, `depth_scale` (nan where there is none); `note`; `first_nonfinite_layer`, the layer
        at which variances diverge (−1: none); `relative_error`, the sum of those of the expectations that were taken,
        0 for chains that no expectation was sampled for.

    Raises:
        IsometerError: no theory covers the spec; the message names the assumption that fails and a covered spec.

    Example:
        >>> data = predict(Spec(width=100, depth=3, gain=2**0.5), gram=np.eye(2), metrics=["mean_cosine"])
        >>> data["mean_cosine"].values[0, 1:].round(4).tolist()  # κ(0) = 1/π, κ(1/π), …
        [0.3183, 0.4937, 0.6048]

    Implements: 001/map-3.3, 001/eq-5.11, 001/eq-5.12, 002/eq-rec-vanilla and 000/def-layer at infinite width.
    """
    names = checked_metrics(list(DEFAULT_METRICS) if metrics is None else list(metrics))
    if backward and GRADIENT not in names:
        names.append(GRADIENT)
    wanted = GRADIENT in names
    if at not in ("post", "pre"):
        raise IsometerError(f"at is {at!r}; expected 'post' or 'pre' — pass one of them")
    if isinstance(batch, str) or (batch is None and gram is None):
        batch = batch_for(spec.shape.width, spec.shape.axes, batch)
    check_sequences(names, spec.shape.axes, len(np.asarray(batch)) if batch is not None else 2)
    if not isinstance(spec, Chain):
        return _of_network(spec, batch, gram, names, at, progress)
    start, is_gram = checked_start(spec, batch, gram)
    check_covered(spec, len(start), backward=wanted)
    forward = Forward(spec, before=at == "pre")
    check_prediction_work(len(start), spec.layers, len(names), backward=wanted)
    path = forward.path(start, is_gram=is_gram, progress=progress)
    error = forward.error  # of the path alone
    pairs = path.grams(at)
    features = np.array([spec.input_width, *spec.widths], dtype=float)[: len(pairs)]
    found = measured_by_layer(names, pairs, features)
    values = {}
    for name in names:
        full = np.full((1, spec.layers + 1), math.nan)
        if name == GRADIENT:
            if path.diverged < 0:
                full[0] = gradient_log_norms(forward, path, None if is_gram else start.T)
        else:
            full[0, : len(pairs)] = found[name]
        values[name] = full
    ends = limits(spec, len(start), path)
    return trajectory(
        values,
        spec,
        at=at,
        engine="theory",
        loss="gaussian" if wanted else "none",
        first_nonfinite_layer=np.array([path.diverged]),
        relative_error=error,
        **ends.attributes(),
        versions=_own_versions(),
    )


def _of_network(
    spec: Spec,
    batch: ArrayLike | None,
    gram: ArrayLike | None,
    names: Sequence[str],
    at: str,
    progress: Callable[[int, int], None] | None,
) -> xarray.Dataset:
    matrix = None if gram is None and batch is not None else checked_start(spec, batch, gram)[0]
    found = network_values(spec, batch, matrix, names, at, progress)
    wanted = GRADIENT in names
    return trajectory(
        found.values,
        spec,
        at=at,
        engine="theory",
        loss="gaussian" if wanted else "none",
        **found.attributes,
        versions=_own_versions(),
    )


def finite_width(
    spec: Spec,
    batch: ArrayLike | None = None,
    *,
    gram: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    runs: int = 1,
    level: float = 0.95,
    at: Literal["post", "pre"] = "post",
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Mean and interval of every metric in networks of the spec's own widths, to leading order in 1/width.

    The Gram matrix of each layer is a random matrix whose mean and covariance follow from layer to layer (see
    `_fluctuations.py`); metrics are averaged over draws from that law. Where the fluctuation of
    an eigenvalue is as large as the eigenvalue (depth is no longer small against width), the expansion ends, and so do
    the numbers: NaN from there on, and the attribute `band_until` is the last layer that has them.

    Args:
        spec: the network, covered and without skip connections.
        batch: the input `(n, d)`, n at most `isometer.theory.prediction.LARGEST`.
        gram: or its Gram matrix.
        metrics: as in `predict`; gradients have no band.
        runs: the interval is that of the mean over so many runs.
        level: coverage of the interval.
        at: as in `predict`.
        progress: called as `progress(done, total)` in layers; the law of each comes first, then its metrics.

    Returns:
        The variables of `summarize`: `statistic` (`mean`, `low`, `high`) × `layer`; the attribute `band_from` is
        `"theory"`, where `isometer.simulate.simulated_band` has `"simulation"`.

    Example:
        >>> spec = Spec(width=50, depth=20, activation="identity", norm="batch-rescale")
        >>> gap = finite_width(spec, gram=np.eye(4), metrics=["orthogonality_gap"])["orthogonality_gap"]
        >>> low, high = (float(gap.sel(statistic=s, layer=20)) for s in ("low", "high"))
        >>> low < 0.16 < high  # the stationary gap of this width
        True

    Implements: 001/thm-3.2, 001/fig-2.2b at every layer, for any activation.
    """
    names = [n for n in checked_metrics(list(DEFAULT_METRICS) if metrics is None else list(metrics)) if n != GRADIENT]
    runs = whole_number(runs, "runs", high=MOST_RUNS, fix="pass the number of networks")
    quantile = half_width(level)
    spec = chain_only(spec, "the band of finite width")
    start, is_gram = checked_start(spec, batch, gram)
    check_covered(spec, len(start))
    forward = Forward(spec)
    reason = finite_width_gap(spec, len(start))
    if reason is not None:
        raise IsometerError(f"no finite-width theory: {reason} — simulate it instead")
    check_band_work(len(start), spec.layers, len(names))
    total = 2 * spec.layers
    with np.errstate(all="ignore"):  # what overflows has diverged, and ends the band
        laws = gram_laws(forward, start, is_gram=is_gram, at=at, progress=_shifted(progress, 0, total))
    report = _shifted(progress, spec.layers, total)
    features = [spec.input_width, *spec.widths]
    table = {name: np.full((3, spec.layers + 1), math.nan) for name in names}
    until = len(laws) - 1  # fewer than layers where variances diverge
    for layer, law in enumerate(laws):
        if report is not None:
            report(layer)
        if not law.reach() <= _REACH:  # negated, so that NaN counts as no law too
            until = layer - 1
            break
        if layer > 1 and law.equals(laws[layer - 1]) and features[layer] == features[layer - 1]:
            for name in names:
                table[name][:, layer] = table[name][:, layer - 1]
            continue
        factors, scales = law.draws(_DRAWS)
        drawn = measured(names, factors, scales, np.full(len(factors), float(features[layer] or 1)))
        if any(np.isnan(values).any() for values in drawn.values()):
            until = layer - 1
            break
        for name in names:
            table[name][:, layer] = _statistics(drawn[name], quantile, runs, level)
    empty = trajectory({}, spec, at=at, engine="theory", versions=_own_versions(), runs=runs, level=level)
    data = {name: (("statistic", "layer"), values) for name, values in table.items()}
    coordinates = {**{k: v for k, v in empty.coords.items() if k != "run"}, "statistic": ["mean", "low", "high"]}
    return xarray.Dataset(data, coords=coordinates, attrs={**empty.attrs, "band_from": "theory", "band_until": until})


def _shifted(progress: Callable[[int, int], None] | None, done: int, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda layer: progress(done + layer, total)


_REACH = 1.0  # of `GramLaw.reach`: fluctuations as large as what fluctuates


def finite_width_gap(spec: Spec, samples: int) -> str | None:
    """Why `finite_width` has no band for a spec and a batch size; None if it has.

    Example:
        >>> finite_width_gap(Spec(width=8, depth=2), 4) is None
        True
    """
    if not isinstance(spec, Chain):
        return "the fluctuations of a network are followed for one layer repeated"
    if samples > LARGEST:
        return f"the batch has {samples} samples, and the covariance of a Gram matrix is followed up to {LARGEST}"
    return band_gap(Forward(spec))


def missing_bands(spec: Spec, samples: int, metrics: Sequence[str]) -> dict[str, str]:
    """Why metrics have no band of the spec's own width, by name; empty if all have one.

    Example:
        >>> sorted(missing_bands(Spec(width=8, depth=2), 4, ["rank", "gradient_log_norm"]))
        ['gradient_log_norm']
    """
    reason = finite_width_gap(spec, samples)
    found = {name: reason for name in metrics if reason is not None and name != GRADIENT}
    if GRADIENT in metrics:
        found[GRADIENT] = _NO_GRADIENT_BAND
    return found


_NO_GRADIENT_BAND = (
    "how gradients fluctuate at finite width is not derived: backward weights are the forward ones, and their "
    "dependence is of the same order as the fluctuation"
)


def _statistics(values: Floats, quantile: float, runs: int, level: float) -> tuple[float, float, float]:
    if not np.isfinite(values).all():
        odd = float(values[~np.isfinite(values)][0])
        return odd, odd, odd
    mean = float(values.mean())
    # one run spreads like the law itself; the mean of several is nearly Gaussian
    if runs == 1:
        low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
        return mean, float(low), float(high)
    half = quantile * float(values.std()) / math.sqrt(runs)
    return mean, mean - half, mean + half


def checked_start(spec: Spec, batch: ArrayLike | None, gram: ArrayLike | None) -> tuple[Floats, bool]:
    """The batch or the Gram matrix as an array, and which it is; an error says what is wrong with it.

    Example:
        >>> checked_start(Spec(width=3, depth=1), [[1.0, 2.0, 3.0]], None)[0].shape
        (1, 3)
    """
    if (batch is None) == (gram is None):
        came = "neither" if gram is None else "both"
        raise IsometerError(f"expected a batch or its Gram matrix, got {came} — call predict(spec, H) or gram=G")
    array = np.asarray(batch if gram is None else gram, dtype=np.float64)
    what = "batch" if gram is None else "gram"
    if array.ndim != 2 or 0 in array.shape:
        raise IsometerError(f"{what} has shape {array.shape}; expected two axes, none 0 — one input for all runs")
    if not np.isfinite(array).all():
        raise IsometerError(f"{what} has NaN or infinite entries; expected finite numbers — drop those samples")
    check_entries(float(np.abs(array).max()), name=what)
    if gram is None:
        if array.shape[1] != spec.shape.width:
            raise IsometerError(
                f"batch has {array.shape[1]} features, the spec expects {spec.shape.width} — pass "
                f"Spec(…, input_width={array.shape[1]}) or another batch"
            )
        return array, False
    size = max(float(np.abs(array).max()), 1e-300)
    if array.shape[0] != array.shape[1] or float(np.abs(array - array.T).max()) > 1e-10 * size:
        raise IsometerError(f"gram has shape {array.shape}; expected a symmetric matrix (n, n) — pass H Hᵀ / d")
    if float(np.linalg.eigvalsh(array)[0]) < -1e-9 * len(array) * size:
        raise IsometerError("gram has negative eigenvalues; expected none below 0 — pass H Hᵀ / d")
    return (array + array.T) / 2, True


def _own_versions() -> str:
    """Theory does not use torch, whether or not it is loaded."""
    known: dict[str, Any] = json.loads(versions())
    known.pop("torch", None)
    return json.dumps(known)
