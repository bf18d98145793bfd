"""What the depth lab shows: a random network predicted, simulated, and looked at in one layer."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from isometer.data._batches import make_batch
from isometer.errors import IsometerError
from isometer.explore._state import LIMITS
from isometer.metrics import cosines
from isometer.spec import Spec, chain_from_options
from isometer.spec._chain import chain_only
from isometer.spec._normal_form import length
from isometer.spec._parser import parse_network
from isometer.spec._steps import walk

GRADIENT = "gradient_log_norm"
_ALWAYS = ("orthogonality_gap", "isometry_gap", GRADIENT)


def metrics_with(rank: str) -> list[str]:
    """The four quantities of the lab, with the rank that was chosen.

    Example:
        >>> metrics_with("stable_rank")
        ['orthogonality_gap', 'stable_rank', 'isometry_gap', 'gradient_log_norm']
    """
    return [_ALWAYS[0], rank, *_ALWAYS[1:]]


def network(
    activation: str,
    norm: str,
    position: str,
    weights: str,
    gain: str,
    residual: float | None,
    depth: int,
    width: int,
    network: str = "",
) -> Spec:
    """The network of the lab's controls, or the one that is written out.

    Example:
        >>> network("relu", "batch", "pre", "gaussian", "1", None, 5, 16).operations
        ('weights', 'norm', 'activation')
        >>> network("relu", "none", "pre", "gaussian", "1", None, 5, 16, "preln_mlp(width=8, blocks=3)").depth
        4
    """
    for text in (activation, network):
        if "import:" in text:
            raise IsometerError("this page imports nothing; expected an activation by name or as an expression")
    if network:
        return written_network(network, width)
    return chain_from_options(
        width=width,
        depth=depth,
        activation=activation,
        norm=norm,
        norm_position=position,  # type: ignore[arg-type]
        weights=weights,
        gain="forward" if gain == "forward" else 1.0,
        gamma=residual,
    )


def written_network(text: str, width: int) -> Spec:
    """A network as text, within the limits of the page; `width` features enter where it does not say.

    Example:
        >>> written_network("dense > act('relu') > dense(2)", 5).shape.width
        5
        >>> written_network("repeat(repeat(dense, 1000), 1000)", 5)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the network has 1000000 steps; this page takes at most 2000 — repeat less often
    """
    steps, shape = parse_network(text)
    count, most = length(steps), int(LIMITS["steps"].high)
    if count > most:  # before anything is unrolled
        raise IsometerError(f"the network has {count} steps; this page takes at most {most} — repeat less often")
    spec = Spec(text) if shape is not None else Spec(text, width=width)
    inside = [getattr(step, name, None) or 1 for step in walk(spec.composition) for name in ("width", "channels")]
    widest = max([*inside, spec.shape.width]) * spec.shape.positions
    if widest > LIMITS["features"].high:
        limit = int(LIMITS["features"].high)
        raise IsometerError(f"the network has {widest} features; this page takes at most {limit} — make it narrower")
    return spec


def inputs_of(spec: Spec, source: str, batch: int, seed: int) -> Any:
    """The batch for a network, positions as axes.

    Example:
        >>> inputs_of(Spec("input(2, [3, 3]) > conv(3, 4) > act('relu') > pool"), "gaussian", 4, 0).shape
        (4, 2, 3, 3)
    """
    flat = make_batch(source, batch, spec.shape.width * spec.shape.positions, seed=seed)
    return flat.reshape(batch, spec.shape.width, *spec.shape.axes)


def simulated(net: dict[str, Any], source: str, batch: int, seed: int, runs: int, rank: str) -> dict[str, Any]:
    """Mean over the runs, its 95 % interval, and where 95 % of the runs are, layer by layer.

    Example:
        >>> net = dict(activation="relu", norm="none", position="pre", weights="gaussian", gain="forward",
        ...            residual=None, depth=3, width=16)
        >>> found = simulated(net, "gaussian", 4, 0, 4, "stable_rank")
        >>> found["layer"], sorted(found["metrics"]["stable_rank"])
        ([0, 1, 2, 3], ['bottom', 'high', 'low', 'mean', 'top'])
    """
    try:
        from isometer.simulate import simulate
        from isometer.trajectory import summarize
    except ImportError as problem:
        raise IsometerError("simulations need torch — pip install 'isometer[torch]'") from problem
    spec = network(**net)
    inputs = inputs_of(spec, source, batch, seed)
    data = simulate(spec, inputs, runs=runs, metrics=metrics_with(rank), seed=seed)
    summary = summarize(data)
    rows = {}
    for name in map(str, data.data_vars):
        values = np.asarray(data[name].values)
        rows[name] = {s: summary[name].sel(statistic=s).values.tolist() for s in ("mean", "low", "high")}
        rows[name] |= {"bottom": _quantile(values, 0.025), "top": _quantile(values, 0.975)}
    overflow = [int(layer) for layer in data.attrs["first_nonfinite_layer"] if layer >= 0]
    return {
        "layer": [int(v) for v in data["layer"].values],
        "metrics": rows,
        "engine": data.attrs["engine"],
        "overflow": min(overflow, default=None),
    }


def _quantile(values: Any, at: float) -> list[float]:
    """Over the runs; the nearest run beyond where infinities make interpolation meaningless."""
    method: Literal["lower", "higher"] = "lower" if at < 0.5 else "higher"
    return [float(v) for v in np.quantile(values, at, axis=0, method=method)]


def predicted(net: dict[str, Any], source: str, batch: int, seed: int, rank: str) -> dict[str, Any]:
    """What theory says at infinite width; without gradients where it covers the way forward alone.

    Example:
        >>> net = dict(activation="relu", norm="none", position="pre", weights="gaussian", gain="forward",
        ...            residual=None, depth=3, width=16)
        >>> sorted(predicted(net, "gaussian", 4, 0, "stable_rank")["metrics"])
        ['gradient_log_norm', 'isometry_gap', 'orthogonality_gap', 'stable_rank']
    """
    from isometer.theory.prediction import predict

    spec, note = network(**net), ""
    inputs = inputs_of(spec, source, batch, seed)
    try:
        data = predict(spec, inputs, metrics=metrics_with(rank))
    except IsometerError as problem:
        note = f"gradients: {problem}"
        data = predict(spec, inputs, metrics=metrics_with(rank)[:-1])  # the last is the gradient
    return {
        "layer": [int(v) for v in data["layer"].values],
        "metrics": {str(name): data[name].values[0].tolist() for name in data.data_vars},
        "statements": _statements(data),
        "note": note,
    }


def _statements(data: Any) -> list[str]:
    from isometer.report._predictions import statements

    return statements(data)


def own_width(net: dict[str, Any], source: str, batch: int, seed: int, rank: str) -> dict[str, Any]:
    """What theory says of networks of this width: mean, and where 95 % of them are.

    Example:
        >>> net = dict(activation="relu", norm="none", position="pre", weights="gaussian", gain="forward",
        ...            residual=None, depth=3, width=16)
        >>> sorted(own_width(net, "gaussian", 4, 0, "stable_rank")["metrics"])
        ['isometry_gap', 'orthogonality_gap', 'stable_rank']
    """
    from isometer.theory.prediction import finite_width, missing_bands

    spec, metrics = network(**net), metrics_with(rank)
    inputs = inputs_of(spec, source, batch, seed)
    missing = missing_bands(spec, batch, metrics)
    known = [name for name in metrics if name not in missing]
    rows = {}
    if known:
        data = finite_width(spec, inputs, metrics=known)
        rows = {
            str(name): {s: data[name].sel(statistic=s).values.tolist() for s in ("mean", "low", "high")}
            for name in data.data_vars
        }
    return {"metrics": rows, "missing": {str(name): str(why) for name, why in missing.items()}}


def geometry(net: dict[str, Any], source: str, batch: int, seed: int, layer: int) -> dict[str, Any]:
    """The batch in one layer of the first run: cosines, lengths, and its picture in the plane of the odd point.

    The plane is spanned by the longest sample and the mean of the others; lengths are relative to the longest.

    Example:
        >>> net = dict(activation="relu", norm="none", position="pre", weights="gaussian", gain="forward",
        ...            residual=None, depth=3, width=16)
        >>> found = geometry(net, "gaussian", 4, 0, 2)
        >>> len(found["cosines"]), len(found["along"])
        (4, 4)
    """
    from isometer.metrics import odd_point_statistics

    try:
        from isometer.simulate import representations
    except ImportError as problem:
        raise IsometerError("simulations need torch — pip install 'isometer[torch]'") from problem
    spec = chain_only(network(**net), "the picture of one layer")
    inputs = inputs_of(spec, source, batch, seed)
    data = representations(spec, inputs, layers=[min(layer, spec.layers)], seed=seed)
    state = np.asarray(data["state"].values[0, 0], dtype=float)
    if not np.isfinite(state).all():
        raise IsometerError(
            f"the representation overflows by layer {layer} — look at an earlier one, or change the gain"
        )
    odd = odd_point_statistics(state)
    along, across, kept = plane(state, int(odd.index))
    return {
        "cosines": np.asarray(cosines(state)).tolist(),
        "lengths": np.linalg.norm(state, axis=1).tolist(),
        "along": along,
        "across": across,
        "kept": kept,
        "odd": {name: float(value) for name, value in odd._asdict().items()},
    }


def plane(state: Any, odd: int) -> tuple[list[float], list[float], list[float]]:
    """Coordinates along the odd point and across it, toward the mean of the others, and each sample's share in both.

    Example:
        >>> plane(np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 0)[:2]
        ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5])
    """
    scale = float(np.linalg.norm(state[odd])) or 1.0
    h = state / scale
    first = h[odd] / (np.linalg.norm(h[odd]) or 1.0)
    rest = np.delete(h, odd, axis=0).mean(axis=0)
    rest = rest - (rest @ first) * first
    size = float(np.linalg.norm(rest))
    # If the others lie along the odd point, there is no second direction.
    second = rest / size if size > 1e-12 else np.zeros_like(rest)
    along, across = h @ first, h @ second
    squares = (h**2).sum(axis=1)
    kept = np.where(squares > 0, (along**2 + across**2) / np.where(squares > 0, squares, 1.0), 1.0)
    return along.tolist(), across.tolist(), kept.tolist()
