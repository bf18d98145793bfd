"""Chains of millions of layers: averages under the invariant law, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import xarray
from numpy.typing import NDArray
from scipy import stats

from isometer.checks import MOST_RUNS, seed_number, whole_number
from isometer.errors import IsometerError
from isometer.metrics import METRICS, names
from isometer.simulate._chain import Engine, LayerChain
from isometer.simulate._engine import checked_batch, checked_engine, one_thread, sizes_of
from isometer.simulate._gram import triangle
from isometer.simulate._measure import Factors, Measured, metric_name, of_factors, of_representation
from isometer.simulate._work import simulation_work
from isometer.spec import Chain
from isometer.spec._chain import chain_only
from isometer.trajectory import versions
from isometer.work import Work, check_work

Floats = NDArray[np.float64]
_BLOCK = 256  # states measured together, at most
_NUMBERS = 1 << 25  # in a block, at most
_PROBE = 8  # one layer in so many is continued by an independent one
_LONGEST = 10**15  # layers of a chain: more are refused as too much work with a time that can be read


def ergodic_average(
    spec: Chain,
    batch: Any,
    *,
    layers: int,
    metrics: Sequence[Measured] = ("stable_rank", "soft_rank"),
    seed: int = 0,
    burn_in: int | None = None,
    chains: int = 1,
    every: int = 1,
    batches: int = 32,
    moments: bool = False,
    engine: str = "auto",
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float64",
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Time averages of metrics along long chains, with errors, and checks that the chain is stationary.

    `(1/L) Σ_ℓ g(H_ℓ) → E_ν g`. The standard error is that of `batches` consecutive batch means of every chain, or of
    means over two, four, … of these where that is larger (neighbouring batches then are not independent), as long as
    eight are left. Memory does not depend on `layers`.

    Two checks of stationarity per metric. `drift`: every eighth measured state H is continued by an independent layer
    H⁺, and `g(H⁺) − g(H)` has mean 0 under the invariant law (002/def-3). `halves`: the second half of the batch means
    minus the first. Both are divided by their standard errors.

    With `moments`, from `M = Hᵀ H / n` (d × d): the mean of the off-diagonal entries, 0 for odd activations
    (002/lem-6), with its standard error, the largest |t| of a single entry and its Bonferroni p-value; and the
    regularity constant `α = E Tr(diag(M²)²) / E Tr(M³)` (002/def-7) with a jackknife error over the batches.

    Args:
        spec: the layer; its depth and per-layer schedules are not used, all widths must be equal.
        batch: the input, `(n, d)`.
        layers: number of layers of every chain that are averaged over.
        metrics: names, gradients excepted, or functions of a tensor `(…, n, d)` with one number each.
        seed: seed of the weights.
        burn_in: layers left out at the start; a tenth of `layers` by default.
        chains: independent chains run side by side.
        every: layers from one measurement to the next; neighbours of wide networks are nearly equal.
        batches: batch means per chain.
        moments: measure M too.
        engine: `"gram"`, `"dense"` or `"auto"`.
        device: torch device.
        dtype: `"float32"` or `"float64"`.
        progress: called as `progress(done, total)` in layers.

    Returns:
        `mean`, `standard_error`, `drift`, `halves` over `metric`, and with `moments` the scalars `offdiagonal_mean`,
        `offdiagonal_error`, `offdiagonal_largest_t`, `offdiagonal_p`, `regularity`, `regularity_error`.

    Example:
        >>> from isometer.data import make_batch
        >>> from isometer.spec import recurrence
        >>> spec = recurrence("002/eq-5", width=8, depth=1)
        >>> average = ergodic_average(spec, make_batch("gaussian", 8, 8), layers=3200, metrics=["stable_rank"])
        >>> bool(abs(average["mean"].sel(metric="stable_rank") - 2.22) < 0.1)
        True

    Implements: 002/eq-ergodic, 002/def-3, 002/def-7, 002/lem-6, 002/fig-2, 002/fig-9, 002/fig-10.
    """
    spec, seed = _repeatable(spec), seed_number(seed)
    _check_counts(layers, burn_in, chains, every, batches)
    inputs = checked_batch(spec, batch, 1, device, dtype)
    chosen = checked_engine(spec, engine)
    chosen_names = [metric_name(metric) for metric in metrics]
    if any(name in names("gradient") for name in chosen_names):
        raise IsometerError("gradients have no time average along a chain; expected other metrics — use simulate")
    _check_scale(spec, metrics, moments)
    burned = layers // 10 if burn_in is None else burn_in
    _check_work(spec, chosen, inputs, burned + layers, chains, batches, len(chosen_names), moments)
    states = inputs.reshape(-1, *inputs.shape[-2:])[:1].expand(chains, -1, -1).contiguous()
    measured = layers // every
    # each block begins with a probed state: shorter blocks would probe more often than every eighth
    together = max(_PROBE, min(_BLOCK, _NUMBERS // states.numel()))
    averages = _LayerSums(metrics, chains, measured, batches, spec.widths[0] if moments else None)
    with one_thread(), torch.no_grad():
        chain = LayerChain(spec, chosen, states, seed=seed, runs=range(chains), endless=True)
        for done in range(burned):
            chain.step(1)
            if progress is not None and done % _BLOCK == 0:
                progress(done, burned + layers)
            if done % _BLOCK == 0:
                _check_finite(chain)
        probe = _probe(spec, chosen, states, seed, chains, together)
        for start in range(0, measured, together):
            size = min(together, measured - start)
            gathered, scales = [], []
            for _ in range(size):
                for _ in range(every):
                    chain.step(1)
                gathered.append(chain.value)
                scales.append(chain.log_scale)
            _check_finite(chain)
            block, scale = torch.stack(gathered), torch.stack(scales)  # (size, chains, n, d)
            chosen_layers = slice(0, size, _PROBE)
            after, grown = probe(block[chosen_layers])
            # what the probe adds to the scale comes on top of that of the state
            with np.errstate(all="ignore"):  # what is no number is refused at the end
                averages.add(start, block, scale, (after, grown + scale[chosen_layers]), chosen_layers)
            if progress is not None:
                progress(burned + every * (start + size), burned + layers)
    with np.errstate(all="ignore"):
        data, scalars = averages.result(chosen_names)
    _check_averages(chosen_names, data, scalars)
    attrs = {
        "spec": spec.to_json(),
        "engine": chosen,
        "seed": seed,
        "layers": layers,
        "burn_in": burned,
        "chains": chains,
        "every": every,
        "batches": batches,
        "dtype": str(inputs.dtype).removeprefix("torch."),
        "versions": versions(),
    }
    variables: dict[str, Any] = {name: ("metric", values) for name, values in data.items()}
    variables.update({name: ((), value) for name, value in scalars.items()})
    return xarray.Dataset(variables, coords={"metric": chosen_names}, attrs=attrs)


def _check_averages(names: Sequence[str], data: dict[str, Floats], scalars: dict[str, float]) -> None:
    unknown: NDArray[np.bool_] = np.asarray(np.isnan(np.stack([*data.values()])).any(axis=0))
    bad = [name for name, lost in zip(names, unknown, strict=True) if lost]
    bad += [name for name, value in scalars.items() if math.isnan(value)]
    if bad:
        raise IsometerError(
            f"{bad[0]} is infinite or undefined along the chain and has no average — add a "
            "normalisation, or choose other metrics"
        )


def _check_finite(chain: LayerChain) -> None:
    if bool((chain.nonfinite_layer >= 0).any()):
        raise IsometerError("the chain overflowed; expected bounded representations — add a normalisation")


def _repeatable(spec: Chain) -> Chain:
    spec = chain_only(spec, "ergodic_average")
    if set(spec.width if isinstance(spec.width, tuple) else (spec.width,)) != {spec.input_width}:
        raise IsometerError("a chain that repeats one layer needs equal widths of input and layers — pass one width")
    return spec


def _check_counts(layers: int, burn_in: int | None, chains: int, every: int, batches: int) -> None:
    whole_number(layers, "layers", high=_LONGEST)
    whole_number(chains, "chains", high=MOST_RUNS)
    whole_number(every, "every", high=_LONGEST)
    whole_number(batches, "batches", low=4, high=_LONGEST)
    if burn_in is not None:
        whole_number(burn_in, "burn_in", low=0, high=_LONGEST)
    if layers < 8 * batches * every:
        raise IsometerError(
            f"layers is {layers}; expected {8 * batches * every} for {batches} batches of 8 measurements — pass "
            "more layers or fewer batches"
        )


def _check_scale(spec: Chain, metrics: Sequence[Measured], moments: bool) -> None:
    """A chain of degree 1 has no scale of its own: its norm wanders without bound, and has no invariant law."""
    if spec.homogeneity != 1:
        return
    absolute = [m for m in metrics if isinstance(m, str) and m in METRICS and METRICS[m].scaling != "invariant"]
    if absolute or moments:
        what = absolute[0] if absolute else "moments"
        raise IsometerError(
            f"{what} depends on the scale, which a chain without normalisation, bias or bounded activation does not "
            "fix: its norm has no average — add norm='batch', or choose only metrics such as stable_rank"
        )


def _check_work(
    spec: Chain,
    engine: Engine,
    inputs: torch.Tensor,
    layers: int,
    chains: int,
    batches: int,
    metrics: int,
    moments: bool,
) -> None:
    def work(layers: int, chains: int) -> Work:
        sizes = sizes_of(spec, engine, inputs, False, runs=chains, metrics=metrics)
        one = simulation_work(sizes.deeper(1000), slots=chains)  # memory does not depend on the depth
        n, d = inputs.shape[-2:]
        states = 8.0 * chains * n * d
        block = max(_PROBE, min(_BLOCK, _NUMBERS / max(1.0, chains * n * d))) * states
        extra = 24.0 * chains * batches * d * d + 3 * block * max(1.0, d / n) if moments else 0.0
        return Work(one.memory + 6 * block + extra + 48.0 * metrics * chains * batches, one.seconds / 1000 * layers)

    check_work(
        "the chain",
        work(layers, chains),
        {"layers": (layers, lambda many: work(many, chains)), "chains": (chains, lambda many: work(layers, many))},
    )


def _probe(
    spec: Chain, engine: Engine, states: torch.Tensor, seed: int, chains: int, together: int
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """A function that continues states by one layer with weights of their own."""
    # one slot per state of a block, with streams apart from those of the chain
    slots = -(-together // _PROBE) * chains
    first = states[:1].expand(slots, -1, -1).contiguous()
    runs = [1_000_000 + slot for slot in range(slots)]
    other = LayerChain(spec, engine, first, seed=seed, runs=runs, endless=True)

    def apply(block: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = block.reshape(-1, *block.shape[-2:])
        padding = first[: slots - flat.shape[0]]
        other.restart(torch.cat([flat, padding]))
        other.step(1)
        kept = other.value[: flat.shape[0]].reshape(block.shape)
        return kept, other.log_scale[: flat.shape[0]].reshape(block.shape[:2])

    return apply


class _LayerSums:
    """Sums per batch of layers, from which means, errors and checks follow."""

    def __init__(
        self, metrics: Sequence[Measured], chains: int, layers: int, batches: int, features: int | None
    ) -> None:
        self._metrics, self._layers, self._batches = list(metrics), layers, batches
        count = len(self._metrics)
        self._sums = np.zeros((count, chains, batches))
        self._drifts = np.zeros((count, chains, batches))
        self._sizes, self._probes = np.zeros(batches), np.zeros(batches)
        self._features = features
        if features is not None:
            self._matrix = np.zeros((chains, batches, features, features))
            self._cubes = np.zeros((2, chains, batches))

    def add(
        self,
        start: int,
        block: torch.Tensor,
        scale: torch.Tensor,
        probed: tuple[torch.Tensor, torch.Tensor],
        chosen: slice,
    ) -> None:
        # which batch of consecutive layers a state belongs to; products with `member` add states up by batch
        index = (start + np.arange(block.shape[0])) * self._batches // self._layers
        member = (index[:, None] == np.arange(self._batches)).astype(float)  # (size, batches)
        self._sizes += member.sum(0)
        self._probes += member[chosen].sum(0)
        factors = _factors(block, scale)
        after = _factors(*probed)
        for i, metric in enumerate(self._metrics):
            values = _evaluated(metric, block, factors)  # (size, chains)
            self._sums[i] += values.T @ member
            # zeros from the chain itself: what was at layer ℓ against what an independent layer makes of it
            self._drifts[i] += (_evaluated(metric, probed[0], after) - values[chosen]).T @ member[chosen]
        if self._features is not None:
            matrix = block.mT @ block / block.shape[-2]
            square = matrix @ matrix
            weights = torch.as_tensor(member, dtype=matrix.dtype, device=matrix.device)
            self._matrix += torch.einsum("scij,sb->cbij", matrix, weights).cpu().numpy()
            diagonal = torch.diagonal(square, dim1=-2, dim2=-1)
            cube = (square * matrix).sum((-2, -1)).to(torch.float64).cpu().numpy()  # Tr M³, M symmetric
            regular = (diagonal**2).sum(-1).to(torch.float64).cpu().numpy()  # Tr diag(M²)²
            self._cubes[0] += regular.T @ member
            self._cubes[1] += cube.T @ member

    def result(self, names: list[str]) -> tuple[dict[str, Floats], dict[str, float]]:
        count = len(names)
        means = (self._sums / self._sizes).reshape(count, -1)
        drifts = (self._drifts / np.maximum(self._probes, 1)).reshape(count, -1)
        per_chain = self._sums / self._sizes
        half = self._batches // 2
        early, late = per_chain[:, :, :half].reshape(count, -1), per_chain[:, :, half:].reshape(count, -1)
        difference = late.mean(1) - early.mean(1)
        error = np.sqrt(_error(early) ** 2 + _error(late) ** 2)
        data = {
            "mean": means.mean(1),
            "standard_error": _blocked(per_chain, _error),
            "drift": _ratio(drifts.mean(1), _error(drifts)),
            "halves": _ratio(difference, error),
        }
        if self._features is None:
            return data, {}
        return data, self._moments(self._features)

    def _moments(self, d: int) -> dict[str, float]:
        matrix = (self._matrix / self._sizes[:, None, None]).reshape(-1, d, d)
        upper = matrix[:, *np.triu_indices(d, 1)]  # (batches, pairs)
        t = _ratio(upper.mean(0), _error(upper.T))
        largest = float(np.abs(t).max(initial=0.0))
        freedom = upper.shape[0] - 1
        p = min(1.0, upper.shape[1] * 2 * float(stats.t.sf(largest, freedom)))  # two-sided, Bonferroni over all pairs
        every = upper.mean(1) if d > 1 else np.zeros(len(upper))  # one feature has no pair
        powers = self._cubes / self._sizes
        regular, cube = powers.reshape(2, -1)
        if not (cube > 0).all():
            raise IsometerError("the chain died: all representations are zero — scale the weights up, or add a norm")
        return {
            "offdiagonal_mean": float(every.mean()),
            "offdiagonal_error": float(_error(every[None])[0]),
            "offdiagonal_largest_t": largest,
            "offdiagonal_p": p,
            "regularity": float(regular.mean() / cube.mean()),
            "regularity_error": float(_blocked(powers, _jackknife)),
        }


def _factors(block: torch.Tensor, scale: torch.Tensor) -> Factors:
    n, d = block.shape[-2:]
    return Factors(triangle(block).mT if n < d else block, scale, d)


def _evaluated(metric: Measured, block: torch.Tensor, factors: Factors) -> Floats:
    if isinstance(metric, str) and METRICS[metric].reads != "representation":
        values = of_factors(METRICS[metric], factors)
    else:
        values = of_representation(metric)(block)
    return np.asarray(values.to(torch.float64).cpu().numpy())


def _error(values: Floats) -> Floats:
    """Standard error of the mean over the last axis."""
    return np.asarray(values.std(-1, ddof=1) / math.sqrt(values.shape[-1]))


def _jackknife(values: Floats) -> Floats:
    """Standard error of the ratio of two means, from pairs `(2, count)`."""
    n = values.shape[-1]
    without = values.sum(-1, keepdims=True) - values
    ratios = without[0] / without[1]
    return np.asarray(np.sqrt((n - 1) / n * ((ratios - ratios.mean()) ** 2).sum()))


def _blocked(values: Floats, error: Callable[[Floats], Floats]) -> Floats:
    """The largest error over means of 1, 2, 4, … neighbouring batches, `(…, chains, batches)`, while eight are left."""
    found = error(values.reshape(*values.shape[:-2], -1))
    while values.shape[-1] % 2 == 0 and values.shape[-2] * values.shape[-1] >= 16:
        values = values.reshape(*values.shape[:-1], -1, 2).mean(-1)
        found = np.maximum(found, error(values.reshape(*values.shape[:-2], -1)))
    return found


def _ratio(value: Floats, error: Floats) -> Floats:
    """value/error; 0 where both vanish."""
    safe = np.where(error > 0, error, 1.0)
    return np.where(error > 0, value / safe, np.where(value == 0, 0.0, np.copysign(math.inf, value)))
