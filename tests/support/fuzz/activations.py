"""Activations of every shape, steepness and size: numbers that exist, verdicts that iterates confirm, honest errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

from isometer import activation
from isometer.theory import KernelMap
from support.fuzz.expressions import expression
from support.fuzz.target import PromiseBroken, Target

# --- evaluations ------------------------------------------------------------------------------------------------------


def _finite(what: str, *values: Any) -> None:
    for value in values:
        if not np.all(np.isfinite(np.asarray(value, dtype=float))):
            raise PromiseBroken(f"{what} is not finite: {value}")


def _check_evaluation(text: Any) -> None:
    phi = activation(text)
    moments = phi.moments
    _finite("a moment", *(moments[name].value for name in ("mean", "second", "variance", "first", "mirror")))
    _finite("an error", *(moment.error for moment in moments.values()))
    if math.isnan(moments["slope_second"].value):
        raise PromiseBroken("E φ′² is NaN")
    _finite("the error estimate", phi.error_estimate)
    _finite("the kernel", phi.kernel(np.linspace(-1, 1, 9)))
    if phi.error_estimate > 1e-8 and not phi.warnings:
        raise PromiseBroken(f"an error of {phi.error_estimate:.1g} without a warning")


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _size(rng: np.random.Generator) -> float:
    return float(f"{10.0 ** rng.uniform(-100, 100):.3g}")


def steep(rng: np.random.Generator) -> str:
    """A function with one thing extreme about it: its power, its rate, its size, its shift."""
    core = [
        f"x**{rng.integers(2, 33)}",
        f"relu(x)**{rng.integers(2, 33)}",
        f"exp({rng.uniform(0.2, 14):.3g}*x)",
        f"cosh({rng.uniform(0.2, 10):.3g}*x)",
        f"sinh({rng.uniform(0.2, 10):.3g}*x)",
        f"erf({10.0 ** rng.uniform(-6, 20):.3g}*x)",
        f"tanh({10.0 ** rng.uniform(9, 150):.3g}*x)",
        f"sigmoid({10.0 ** rng.uniform(9, 30):.3g}*(x - {rng.uniform(-2, 2):.3g}))",
        f"exp(-({10.0 ** rng.uniform(-2, 30):.3g}*x)**2)",
        f"x*exp({rng.uniform(0.2, 6):.3g}*x)",
        f"sin({10.0 ** rng.uniform(-3, 1):.3g}*x + {rng.uniform(0, 2):.3g})",
        f"x**2 + {rng.uniform(-20, 20):.3g}*x",
        f"(x + {rng.uniform(-6, 6):.3g})**{rng.integers(2, 9)}",
        f"relu(x + {rng.uniform(-3, 3):.3g})",
        f"{rng.choice(['gelu', 'silu', 'elu', 'softplus', 'mish', 'hardtanh'])}({10.0 ** rng.uniform(-2, 1):.3g}*x)",
        f"leaky_relu(x, {rng.uniform(-1, 1):.3g})",
        f"sign(x + {rng.uniform(-2, 2):.3g}) + {10.0 ** rng.uniform(-3, 1):.3g}*x",
    ]
    text = str(rng.choice(core))
    if rng.random() < 0.25:
        text = f"{text} + {rng.uniform(-2, 2):.3g}*({rng.choice(core)})"
    if rng.random() < 0.4:
        text = f"{_size(rng)}*({text})"
    return f"normalized({text})" if rng.random() < 0.2 else text


def _draw_verdict(rng: np.random.Generator) -> Any:
    return steep(rng) if rng.random() < 0.85 else expression(rng, 2, extreme=False)


class _Iterates:
    """The kernel map's own values, followed by a loop that knows nothing of its verdict."""

    def __init__(self, kernel: KernelMap, rho: float | None = None, gap: float | None = None) -> None:
        self.kernel = kernel
        self.gap = gap if gap is not None else 1.0 - float(rho or 0.0)
        self.cosine = 1.0 - self.gap if rho is None else rho

    def step(self) -> None:
        if self.gap < 0.3:
            self.gap = self.kernel.gap_after(self.gap)
            self.cosine = 1.0 - self.gap
        else:
            self.cosine = float(self.kernel(min(max(self.cosine, -1.0), 1.0)))
            self.gap = 1.0 - self.cosine


def _verdict(kernel: KernelMap) -> tuple[int | None, float | None]:
    case, fixed = kernel.case, kernel.fixed_point
    if case is None:
        return case, fixed
    known = {1: fixed == 0.0, 2: fixed == 1.0, 3: fixed == 1.0, 4: fixed is not None and 0.0 < fixed < 1.0}
    if not known[case]:
        raise PromiseBroken(f"case {case} with the fixed point {fixed}")
    return case, fixed


def _check_verdict(text: Any) -> None:
    kernel = KernelMap(text)
    case, fixed = _verdict(kernel)
    error = 20 * kernel.error
    if kernel.error > 1e-6 and not kernel.warnings:
        raise PromiseBroken(f"an error of {kernel.error:.1g} without a warning")
    starts = [_Iterates(kernel, rho) for rho in (0.0, 0.3, 0.7)] + [_Iterates(kernel, gap=1e-3)]
    if case is None:
        for path in starts:
            before = path.cosine
            for _ in range(50):
                path.step()
            if abs(path.cosine - before) > 50 * error + 1e-11:
                raise PromiseBroken(f"linear, but {before} becomes {path.cosine}")
        return
    assert fixed is not None
    if case == 3:
        _check_algebraic(kernel, error)
        return
    rate = kernel.slope_at_fixed_point
    if not -error <= rate <= 1.0:
        raise PromiseBroken(f"a rate of {rate}")
    for path in starts:
        _check_exponential(kernel, path, fixed, rate, error)


def _check_exponential(kernel: KernelMap, path: _Iterates, fixed: float, rate: float, error: float) -> None:
    """The distance never grows, falls as said once it is small, and is gone after as many layers as that takes."""

    def distance() -> float:
        return path.gap if fixed == 1.0 else abs(path.cosine - fixed)

    slow = min(1.0 - rate, 0.5)
    resolved = error / max(slow, 1e-15) + 1e-14  # closer to ρ* errors of κ decide
    # a jump bends κ at ρ = 1: where ρ* is next to that, κ is straight only much closer to ρ* than to 1
    close = 1e-6 if fixed == 1.0 else min(1e-6, 0.01 * (1.0 - fixed))
    layers, last = 0, distance()
    while last > max(close, 10 * resolved) and layers < 3000:
        path.step()
        here = distance()
        if here > last * (1 + 1e-9) + resolved:
            raise PromiseBroken(f"moves away from ρ* = {fixed}: {last} → {here}")
        last, layers = here, layers + 1
    if last <= max(close, 10 * resolved):
        if last > 10 * resolved and last > 0.0:
            path.step()
            if abs(distance() / last - rate) > 0.02 + 5 * resolved / last and rate > 1e-4:
                raise PromiseBroken(f"rate {rate}, but the distance falls by {distance() / last}")
        return
    # slow: what is left must still be falling at about the rate, or faster than it where κ bends toward it
    path.step()
    factor = distance() / last
    if not factor < 1.0 or (slow > 0.01):
        raise PromiseBroken(f"after {layers} layers still {last} from ρ* = {fixed}; rate {rate}, factor {factor}")


def _check_algebraic(kernel: KernelMap, error: float) -> None:
    if abs(kernel.slope_at_one - 1.0) > 1e-8 and not kernel.warnings:
        raise PromiseBroken(f"case 3 with κ′(1) = {kernel.slope_at_one}")
    if kernel.asymptote is None:
        return
    constant, power = kernel.asymptote
    # from where the asymptote gives a gap of 1e-5, a thousand layers on
    start = (constant / 1e-5) ** (1 / power)
    path = _Iterates(kernel, gap=1e-5)
    layers = min(int(start) + 1, 2000)
    for _ in range(layers):
        path.step()
    predicted = constant / (start + layers) ** power
    if abs(path.gap / predicted - 1.0) > 0.05:
        raise PromiseBroken(f"1 − ρ = {path.gap}, predicted {predicted}")


# --- errors -----------------------------------------------------------------------------------------------------------


def _draw_error(rng: np.random.Generator) -> Any:
    a, b = round(float(rng.uniform(0.1, 5)), 3), round(float(rng.uniform(-2, 2)), 3)
    kind = str(rng.choice(["power", "relu_power", "exp", "cosh", "erf", "tanh", "mixed", "kinked", "bump"]))
    scale = float(rng.choice([1.0, 1e-100, 1e100, 3.7]))
    return {"kind": kind, "a": a, "b": b, "n": int(rng.integers(2, 31)), "scale": scale}


def _text(case: dict[str, Any]) -> tuple[str, Callable[[Any], Any], list[float]]:
    """The expression, the same function for mpmath, and its kinks."""
    a, b, n = case["a"], case["b"], case["n"]
    table: dict[str, tuple[str, Callable[[Any], Any], list[float]]] = {
        "power": (f"x**{n}", lambda x: x**n, []),
        "relu_power": (f"relu(x)**{n}", lambda x: x**n if x > 0 else mpf(0), [0.0]),
        "exp": (f"exp({a}*x)", lambda x: mp.exp(mpf(a) * x), []),
        "cosh": (f"cosh({a}*x)", lambda x: mp.cosh(mpf(a) * x), []),
        "erf": (f"erf({a}*x)", lambda x: mp.erf(mpf(a) * x), []),
        "tanh": (f"tanh({a}*x + {b})", lambda x: mp.tanh(mpf(a) * x + mpf(b)), [-b / a]),
        "mixed": (f"x*exp({a}*x) + {b}", lambda x: x * mp.exp(mpf(a) * x) + mpf(b), []),
        "kinked": (f"relu(x + {b})*exp(-{a}*x)", lambda x: max(x + mpf(b), mpf(0)) * mp.exp(-mpf(a) * x), [-b]),
        "bump": (f"exp(-{a}*(x - {b})**2)", lambda x: mp.exp(-mpf(a) * (x - mpf(b)) ** 2), [b]),
    }
    return table[case["kind"]]


def reference(function: Callable[[Any], Any], kinks: list[float]) -> dict[str, Any]:
    """E φ, E φ², E Xφ and Hermite coefficients by mpmath's tanh–sinh rule with thirty digits."""
    with mp.workdps(30):
        places = sorted({-30.0, -12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0, 30.0, *kinks})

        def e(f: Callable[[Any], Any]) -> Any:
            return mp.quad(lambda x: f(x) * mp.npdf(x), [mpf(p) for p in places])

        return {"mean": e(function), "second": e(lambda x: function(x) ** 2), "first": e(lambda x: x * function(x))}


def _check_error(case: Any) -> None:
    text, function, kinks = _text(case)
    phi = activation(text).scaled(case["scale"])
    exact = reference(function, kinks)
    factor = mpf(case["scale"])
    expected = {"mean": exact["mean"] * factor, "second": exact["second"] * factor**2, "first": exact["first"] * factor}
    for name, value in expected.items():
        found = phi.moments[name]
        missed = abs(mpf(found.value) - value)
        noise = mpf(1e-25) * mp.sqrt(expected["second"]) ** (2 if name == "second" else 1)  # of the reference
        if missed > 3 * mpf(found.error) + mpf(4e-15) * abs(value) + noise:
            raise PromiseBroken(
                f"{name} of {text}: {found.value} is off by {mp.nstr(missed, 3)}, stated {found.error:.1g}"
            )
    kernel = KernelMap(phi)
    at_zero, slope = exact["mean"] ** 2 / exact["second"], exact["first"] ** 2 / exact["second"]
    for name, found_value, value in (("κ(0)", kernel(0.0), at_zero), ("κ′(0)", kernel.slope_at_zero, slope)):
        if abs(mpf(found_value) - value) > 3 * mpf(kernel.error) + mpf(1e-15):
            raise PromiseBroken(
                f"{name} of {text}: {found_value}, expected {mp.nstr(value, 17)}, stated {kernel.error:.1g}"
            )
    exact_kernel = _closed(case)
    for rho in (-0.6, 0.35, 0.9) if exact_kernel is not None else ():
        value = exact_kernel(mpf(rho))
        if abs(mpf(kernel(rho)) - value) > 3 * mpf(kernel.error) + mpf(1e-15):
            raise PromiseBroken(f"κ({rho}) of {text}: {kernel(rho)}, expected {mp.nstr(value, 17)}")


def _closed(case: dict[str, Any]) -> Callable[[Any], Any] | None:
    """κ by formula, of thirty digits."""
    q = mpf(case["a"]) ** 2
    r = 2 * q / (1 + 2 * q)
    table: dict[str, Callable[[Any], Any]] = {
        "exp": lambda rho: mp.exp(q * (rho - 1)),
        "cosh": lambda rho: mp.cosh(q * rho) / mp.cosh(q),
        "erf": lambda rho: mp.asin(r * rho) / mp.asin(r),
        "power": lambda rho: _power_kernel(case["n"], rho),
    }
    return table.get(case["kind"])


def _power_kernel(n: int, rho: Any) -> Any:
    """Of xⁿ = Σ_j n!/(2^j j! (n − 2j)!) He_{n−2j}."""
    squares = {}
    for j in range(n // 2 + 1):
        k = n - 2 * j
        squares[k] = (mp.factorial(n) / (mpf(2) ** j * mp.factorial(j) * mp.factorial(k))) ** 2 * mp.factorial(k)
    return mp.fsum(c * rho**k for k, c in squares.items()) / mp.fsum(squares.values())


TARGETS = (
    Target("evaluations", 1_500, 2, lambda rng: expression(rng, int(rng.integers(1, 4))), _check_evaluation),
    Target("verdicts", 3_000, 2, _draw_verdict, _check_verdict),
    Target("errors", 400, 2, _draw_error, _check_error),
)
