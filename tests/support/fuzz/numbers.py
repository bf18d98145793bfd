"""Numbers of every size where a number is expected: an answer, or an error that says what was expected."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer.work import allow
from support.fuzz.target import PromiseBroken, Target

_ALLOWED = 4.0  # seconds that a case may be estimated at; ten are what it may take

_COUNTS = (
    -(10**18),
    -1,
    0,
    1,
    2,
    3,
    7,
    8,
    9,
    33,
    100,
    1000,
    10**4,
    10**6,
    10**9,
    2**31,
    2**63,
    10**18,
    10**30,
    10**400,
)
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-320, 1e-300, 1e-150, 1e-30, 1e-8, 1e8, 1e30, 1e150, 1e300, 1.7e308)
_ODD = ("nan", "inf", "-inf")
_TEXT = ("", "many", "1e3", "0x10", "1_0", "3.5", "٣")
_ACTIVATIONS = (
    "relu",
    "tanh",
    "gelu",
    "selu",
    "identity",
    "sin",
    "exp",
    "hardtanh",
    "cube",
    "normalized(relu)",
    "sign",
)
_WEIGHTS = ("gaussian", "orthogonal", "uniform", "he", "pytorch", "asymmetric", "orthogonalized-xavier")
_NORMS = ("none", "batch", "layer", "rms", "batch-recenter", "unit")
_METRICS = (
    "rank",
    "log_norm",
    "second_moment",
    "mean_abs_cosine",
    "soft_rank",
    "gradient_log_norm",
    "largest_singular_value",
)


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def _count(rng: np.random.Generator, usual: tuple[int, ...]) -> Any:
    """Mostly a usual number, now and then any."""
    kind = rng.random()
    if kind < 0.87:
        return _pick(rng, usual)
    if kind < 0.985:
        return _pick(rng, _COUNTS)
    return _pick(rng, (*_ODD, *_REALS))


def _real(rng: np.random.Generator, usual: tuple[float, ...]) -> Any:
    kind = rng.random()
    if kind < 0.84:
        return _pick(rng, usual)
    if kind < 0.92:
        return _pick(rng, _REALS)
    if kind < 0.97:
        return float(10.0 ** rng.uniform(-320, 308) * _pick(rng, (1.0, 1.0, -1.0)))
    return _pick(rng, _ODD)


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """A call and its numbers."""
    call = _pick(rng, list(_CALLS))
    case: dict[str, Any] = {
        "call": call,
        "activation": _pick(rng, _ACTIVATIONS),
        "weights": _pick(rng, _WEIGHTS) if rng.random() < 0.4 else "gaussian",
        "norm": _pick(rng, _NORMS) if rng.random() < 0.5 else "none",
        "metric": _pick(rng, _METRICS),
        "width": _count(rng, (1, 2, 5, 8, 20)),
        "depth": _count(rng, (1, 2, 5, 20)),
        "batch": _count(rng, (1, 2, 3, 6, 12)),
        "runs": _count(rng, (1, 2, 4)),
        "seed": _count(rng, (0, 1, 5)),
        "gain": _real(rng, (1.0, 1.5)),
        "bias_variance": _real(rng, (0.0, 0.1)),
        "gamma": _real(rng, (0.5, 1.0)) if rng.random() < 0.5 else "inf",
        "scale": _real(rng, (1.0,)),
    }
    if call.startswith("command") and rng.random() < 0.1:
        case[_pick(rng, ("width", "depth", "batch", "runs", "seed", "gain", "bias_variance", "gamma"))] = _pick(
            rng, _TEXT
        )
    return case


def _value(given: Any) -> Any:
    """JSON has no nan and no infinity."""
    return float(given) if isinstance(given, str) and given in _ODD else given


def _spec(case: Mapping[str, Any]) -> Any:
    from isometer.spec import Spec

    norm = None if case["norm"] == "none" else case["norm"]
    gamma = _value(case["gamma"])
    skip = isinstance(gamma, float) and math.isfinite(gamma)
    order = ("activation", "weights", "residual", "norm") if skip else ("weights", "norm", "activation")
    return Spec(
        width=_value(case["width"]),
        depth=_value(case["depth"]),
        activation=case["activation"],
        norm=norm,
        weights=case["weights"],
        gain=_value(case["gain"]),
        bias_variance=_value(case["bias_variance"]),
        residual=gamma,
        order=order,
    )


def _inputs(case: Mapping[str, Any], features: Any) -> Any:
    from isometer.data import make_batch

    with np.errstate(all="ignore"):
        return make_batch("gaussian", _value(case["batch"]), features, seed=_value(case["seed"])) * _value(
            case["scale"]
        )


def _defined(data: xarray.Dataset, what: str) -> None:
    """No nan, but from the layer on at which a run overflowed, which the result names."""
    lost = data.attrs.get("first_nonfinite_layer")
    for name, variable in data.data_vars.items():
        values = np.asarray(variable.values, dtype=float)
        unknown = np.isnan(values)
        if lost is not None and variable.dims[:2] == ("run", "layer"):
            from isometer.metrics import METRICS

            first = np.asarray(lost)[:, None]
            layers = np.arange(values.shape[1])
            after = (first >= 0) & ((layers >= first) | (METRICS[str(name)].reads == "gradient"))
            unknown &= ~after
        if unknown.any():
            raise PromiseBroken(f"{what}: {name} is nan at {np.argwhere(unknown)[0].tolist()}")


def _simulate(case: Mapping[str, Any]) -> None:
    from isometer.simulate import simulate
    from isometer.trajectory import summarize

    spec = _spec(case)
    data = simulate(
        spec,
        _inputs(case, spec.input_width),
        runs=_value(case["runs"]),
        seed=_value(case["seed"]),
        metrics=[case["metric"]],
    )
    _defined(data, "simulate")
    summarize(data)


def _representations(case: Mapping[str, Any]) -> None:
    from isometer.simulate import representations

    spec = _spec(case)
    seed = _value(case["seed"])
    representations(
        spec, _inputs(case, spec.input_width), layers=[_value(case["depth"])], runs=_value(case["runs"]), seed=seed
    )


def _jacobian(case: Mapping[str, Any]) -> None:
    from isometer.simulate import jacobian_spectrum

    spec = _spec(case)
    jacobian_spectrum(spec, _inputs(case, spec.input_width), runs=_value(case["runs"]), seed=_value(case["seed"]))


def _ergodic(case: Mapping[str, Any]) -> None:
    from isometer.simulate import ergodic_average

    spec = _spec(case)
    layers, seed = _value(case["depth"]), _value(case["seed"])
    layers = 40 * layers if isinstance(layers, int) else layers
    data = ergodic_average(
        spec,
        _inputs(case, spec.input_width),
        layers=layers,
        seed=seed,
        chains=_value(case["runs"]),
        batches=4,
        moments=True,
    )
    _defined(data, "ergodic_average")


def _predict(case: Mapping[str, Any]) -> None:
    from isometer.theory.prediction import predict

    spec = _spec(case)
    _defined(predict(spec, _inputs(case, spec.input_width), metrics=[case["metric"]]), "predict")


def _finite_width(case: Mapping[str, Any]) -> None:
    from isometer.theory.prediction import finite_width

    spec = _spec(case)
    data = finite_width(spec, _inputs(case, spec.input_width), metrics=["rank", "log_norm"], runs=_value(case["runs"]))
    until = int(data.attrs["band_until"])
    for name in data.data_vars:
        if np.isnan(data[name].values[:, : until + 1]).any():
            raise PromiseBroken(f"finite_width: {name} is nan before layer {until}")


def _kernel(case: Mapping[str, Any]) -> None:
    from isometer.theory.kernels import kernel_matrices

    found = kernel_matrices(
        case["activation"],
        _inputs(case, _value(case["width"])),
        _value(case["depth"]),
        bias=_value(case["bias_variance"]),
        norm=case["norm"],
        residual=_value(case["gamma"]),
    )
    for kind, kernel in found.items():
        numbers = [*kernel.matrix.ravel(), kernel.condition_number, kernel.effective_rank]
        if np.isnan(numbers).any() or np.isnan(kernel.log_diagonal).any():
            raise PromiseBroken(f"kernel: the {kind} has nan")


def _arguments(case: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    found = [f"--activation={case['activation']}", f"--norm={case['norm']}", f"--weights={case['weights']}"]
    return [*found, *(f"--{name.replace('_', '-')}={_written(case[name])}" for name in names)]


def _written(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**100:
        return f"1{'0' * 400}"
    return str(value)


def _run(arguments: list[str]) -> None:
    """As `isometer` would: an exit code of 2 is a refusal."""
    from typer.testing import CliRunner

    from isometer.cli import app

    result = CliRunner().invoke(app, arguments)
    problem = result.exception
    if problem is not None and not isinstance(problem, SystemExit):
        raise problem
    if result.exit_code == 2:
        raise IsometerError(result.output[-200:])
    if result.exit_code not in (0, 1):
        raise PromiseBroken(f"exit code {result.exit_code}")


_NETWORK = ("width", "depth", "batch", "seed", "gain", "bias_variance", "gamma")


def _simulate_command(case: Mapping[str, Any]) -> None:
    _run(["simulate", "--json", f"--metric={case['metric']}", *_arguments(case, (*_NETWORK, "runs"))])


def _predict_command(case: Mapping[str, Any]) -> None:
    _run(["predict", "--json", f"--metric={case['metric']}", *_arguments(case, (*_NETWORK, "runs"))])


def _kernel_command(case: Mapping[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        path = f"{folder}/x.npy"
        with np.errstate(all="ignore"):
            np.save(path, np.random.default_rng(0).standard_normal((5, 4)) * _value(case["scale"]))
        options = [
            f"--depth={_written(case['depth'])}",
            f"--bias-variance={case['bias_variance']}",
            f"--gamma={case['gamma']}",
        ]
        norm = case["norm"] if case["norm"] in ("none", "layer", "rms") else "none"
        _run(["kernel", "--json", f"--activation={case['activation']}", f"--norm={norm}", f"--input={path}", *options])


def _sweep_check(case: Mapping[str, Any]) -> None:
    """What a sweep does before it runs: every cell is checked."""
    from isometer.cli._targets import TARGETS, converted

    target = TARGETS["simulate"]
    axes = target.axes()
    for name in _NETWORK:
        converted(name, _written(case[name]), axes[name])


_CALLS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "simulate": _simulate,
    "representations": _representations,
    "jacobian": _jacobian,
    "ergodic": _ergodic,
    "predict": _predict,
    "finite_width": _finite_width,
    "kernel": _kernel,
    "command simulate": _simulate_command,
    "command predict": _predict_command,
    "command kernel": _kernel_command,
    "sweep": _sweep_check,
}


def check(case: Mapping[str, Any]) -> None:
    """Warnings count as broken promises: an overflow that NumPy tells is one nobody looked at."""
    with warnings.catch_warnings(), allow(seconds=_ALLOWED):
        warnings.simplefilter("error")
        _CALLS[case["call"]](case)


TARGETS = [Target("numbers", total=2000, few=20, draw=draw, check=check)]
