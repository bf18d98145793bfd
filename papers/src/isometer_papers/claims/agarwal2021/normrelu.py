"""004, §7 and Appendix I: NormReLUMoments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from isometer.activations import NORMRELU_KINK, activation
from isometer.theory.kernels import NormReLUMoments, normrelu_bound, normrelu_settling_depth
from isometer_papers.claims._claim import Claim, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import (
    at_least,
    at_most,
    deterministic,
    empirical,
    equal,
    vanishes,
)
from isometer_papers.float_or_mpmath import Numeric, exp, ncdf, npdf, sqrt
from isometer_papers.theory.duals.normrelu_pairs import normrelu_constants, normrelu_correlations

_paper = cases({"c": NORMRELU_KINK})


def _kinks(rng: Rng, count: int) -> Iterator[Instance]:
    for c in (NORMRELU_KINK, 0.0, 1.0, -0.5):
        yield {"c": c}
    for _ in range(count):
        yield {"c": float(rng.uniform(-2.5, 1.5))}


def _constant(name: str) -> Callable[[Instance], Numeric]:
    return lambda i: normrelu_constants(i["c"])[name]


def _printed(part: str, name: str, value: float, unit: float, fixed: float | None) -> list[Claim]:
    """A printed number, to one unit of its last digit; with a correction where that fails."""

    def claim(id: str, number: float) -> Claim:
        compared = at_most(lambda i: abs(_constant(name)(i) - number), unit)
        return deterministic(id, compared, {"paper": _paper}, scale=abs(value))

    found = [claim(f"004/{part}", value)]
    return found if fixed is None else [*found, claim(f"004/{part}#corrected", fixed)]


def _moment(power: int) -> Callable[[Instance], Numeric]:
    """E σ or E σ² of λ(max(x − c, 0) + b) with the printed b and λ, by the library's quadrature."""

    def value(i: Instance) -> float:
        unit = NormReLUMoments(float(i["c"]))
        name = f"{unit.scale!r}*(relu(x - ({unit.kink!r})) + ({unit.shift!r}))"
        phi = activation(name)
        return phi.mean if power == 1 else phi.second_moment

    return value


def _exact_moment(power: int) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    def sides(i: Instance) -> tuple[Numeric, Numeric]:
        lib = mpmath()
        c = i["c"]
        below, peak = lib.ncdf(c), lib.npdf(c)
        b = (1 - below) * c - peak
        scale = ((1 - below) * below * c**2 + (1 - 2 * below) * peak * c + (1 - below - peak**2)) ** -0.5
        # panels end at the kink, across which quadrature converges slowly
        value = lib.quad(lambda x: (scale * (max(x - c, 0) + b)) ** power * lib.npdf(x), [-15, c, 2, 15])
        return value, lib.mpf(power - 1)

    return sides


def _variances(rng: Rng, count: int) -> Iterator[Instance]:
    for gamma in (0.5, 1.0, 2.0):
        yield {"c": NORMRELU_KINK, "gamma": gamma}
    for _ in range(count):
        yield {"c": float(rng.choice([NORMRELU_KINK, rng.uniform(-2, 1)])), "gamma": float(rng.uniform(0.2, 4))}


def _closed_form(which: str) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    """A quantity at variance γ by quadrature, and the closed form of Appendix I.1 (over λ or λ²)."""

    def sides(i: Instance) -> tuple[Numeric, Numeric]:
        lib = mpmath()
        with lib.workdps(25):
            c, gamma = lib.mpf(i["c"]), lib.mpf(i["gamma"])
            b = (1 - lib.ncdf(c)) * c - lib.npdf(c)
            root = lib.sqrt(gamma)
            t = c / root
            above, peak = 1 - lib.ncdf(t), lib.npdf(t)

            def mean(power: int, v: Numeric) -> Numeric:
                r = lib.sqrt(v)
                return lib.quad(lambda x: (max(r * x - c, 0) + b) ** power * lib.npdf(x), [-13, c / r, 3, 13])

            if which == "mean":
                return mean(1, gamma), root * peak - above * c + b
            if which == "length":
                closed = (c**2 + gamma - 2 * c * b) * above + (2 * b - c) * root * peak + b**2
                return mean(2, gamma), closed
            # of 25 digits the difference keeps 19, and its own error is of order 1e-12
            step = lib.mpf("1e-6")
            slope = (mean(2, gamma + step) - mean(2, gamma - step)) / (2 * step)
            return slope, above + b / root * peak

    return sides


def _library(which: str) -> tuple[Callable[[Instance], Numeric], Callable[[Instance], Numeric]]:
    """The same two sides in float64: the library's quadrature, and `NormReLUMoments`."""

    def measured(i: Instance) -> float:
        from isometer.theory.kernels import SignalFamily

        unit, gamma = NormReLUMoments(float(i["c"])), float(i["gamma"])
        family = SignalFamily(f"relu(x - ({unit.kink!r})) + ({unit.shift!r})")
        if which == "mean":
            return family.activation.gain(gamma**0.5).mean
        return family.second_moment(gamma) if which == "length" else family.slope(gamma)

    def printed(i: Instance) -> float:
        unit, gamma = NormReLUMoments(float(i["c"])), float(i["gamma"])
        if which == "mean":
            return unit.mean(gamma) / unit.scale
        value = unit.second_moment(gamma) if which == "length" else unit.slope(gamma)
        return value / unit.scale**2

    return measured, printed


def _formula(part: str) -> Claim:
    measured, printed = _library(part)
    return deterministic(
        f"004/fact-1:{part}-form",
        equal(measured, printed),
        {"random": _variances},
        exact=_closed_form(part),
        scale=1,
        tolerance=1e-7,
        counts=(30, 150),
    )


def _length(variance: Numeric, kink: Any) -> Numeric:
    """σ̂_l of NormReLU, for float64 and mpmath."""
    found = normrelu_constants(kink)
    b, scale = found["shift"], found["scale"]
    root = sqrt(variance)
    t = kink / root
    density, above = npdf(t), ncdf(-t)
    first = root * density - kink * above
    second = (variance + kink * kink) * above - kink * root * density
    return scale**2 * (second + 2 * b * first + b * b), scale**2 * (first + b) ** 2


def _sigma_l(i: Instance, key: str) -> Numeric:
    return _length(i[key], i[key] * 0 + NORMRELU_KINK)[0]


def _bias_at(variance: Numeric) -> Numeric:
    length, square = _length(variance, variance * 0 + NORMRELU_KINK)
    return square / length


def _intervals(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"u": 0.5, "v": 2.0}
    yield {"u": 0.5, "v": 1.0}
    yield {"u": 1.0, "v": 2.0}
    for _ in range(count):
        u, v = sorted(rng.uniform(0.5, 2, 2))
        yield {"u": float(u), "v": float(v)}


INTERVALS = {"random": _intervals}
_SEARCH = Search(lambda p: {"u": 0.5 + 1.5 * float(min(p[:2])), "v": 0.5 + 1.5 * float(max(p[:2]))}, 2)


def _chord(i: Instance) -> Numeric:
    gamma = i["u"]
    if gamma <= 1:
        return 2 * _bias_at(gamma * 0 + 0.5) * (1 - gamma)
    return _bias_at(gamma * 0 + 2) * (gamma - 1)


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for epsilon, more in ((0.1, 0), (0.1, 100), (1.0, 0), (0.01, 300)):
        for rho in (0.95, 0.5, 0.979):
            yield {"p": 0.5, "q": 2.0, "rho": rho, "epsilon": epsilon, "more": more}
    for _ in range(count):
        p, q = rng.uniform(0.5, 2, 2)
        yield {
            "p": float(p),
            "q": float(rng.choice([p, q])),
            "rho": float(rng.uniform(-0.98, 0.98)),
            "epsilon": float(10 ** -rng.uniform(0, 3)),
            "more": int(rng.integers(0, 200)),
        }


def _depth(i: Instance) -> int:
    return math.ceil(normrelu_settling_depth(float(i["epsilon"]))) + int(i["more"])


def _after(i: Instance) -> Numeric:
    return normrelu_correlations((i["p"], i["q"]), i["rho"], _depth(i))


def _theorem(i: Instance) -> float:
    return normrelu_bound(_depth(i), min(1.0, float(1 - abs(i["rho"]))), float(i["epsilon"]))


def _theorem_exact(i: Instance) -> tuple[Numeric, Numeric]:
    # every layer is an integral; the tolerance is 1e-7
    with mpmath().workdps(16):
        return _after(i), _theorem(i)


_apart = cases(*({"x": x} for x in (-6.0, -4.0, -3.0)))


def _selu(x: Numeric) -> Numeric:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * x if x > 0 else scale * alpha * (exp(x) - 1)


def _normrelu(x: Numeric) -> Numeric:
    found = normrelu_constants(x * 0 + NORMRELU_KINK)
    return found["scale"] * (max(x - NORMRELU_KINK, 0) + found["shift"])


def _exact_mu(c: Numeric) -> Numeric:
    """1 − (E Xσ)²/Var σ of the hinge, by mpmath quadrature."""
    lib = mpmath()

    def mean(f: Callable[[Any], Any]) -> Any:
        return lib.quad(lambda x: f(x) * lib.npdf(x), [c, 3, 15] if c < 3 else [c, c + 15])

    first, second, linear = mean(lambda x: x - c), mean(lambda x: (x - c) ** 2), mean(lambda x: x * (x - c))
    return 1 - linear**2 / (second - first**2)


CLAIMS = (
    deterministic(
        "004/normrelu:mean",
        vanishes(_moment(1)),
        {"kinks": _kinks},
        exact=_exact_moment(1),
        tolerance=1e-8,
        counts=(20, 100),
    ),
    deterministic(
        "004/normrelu:square",
        equal(_moment(2), 1),
        {"kinks": _kinks},
        exact=_exact_moment(2),
        tolerance=1e-8,
        counts=(20, 100),
    ),
    *_printed("normrelu:scale", "scale", 1.05, 0.01, None),
    *_printed("normrelu:shift", "shift", -1.6209, 1e-4, None),
    *_printed("normrelu:below", "below", 0.0551, 1e-4, None),
    *_printed("normrelu:mu", "nonlinearity", 0.0156, 1e-4, None),
    deterministic(
        "004/normrelu:mu-form",
        equal(lambda i: activation(f"relu(x - ({float(i['c'])!r}))").nonlinearity, _constant("nonlinearity")),
        {"kinks": _kinks},
        exact=lambda i: (_exact_mu(i["c"]), _constant("nonlinearity")(i)),
        tolerance=1e-7,
        counts=(20, 100),
    ),
    *_printed("normrelu:selu", "scale", 1.0507, 0.01, None),
    _formula("mean"),
    _formula("length"),
    _formula("slope"),
    deterministic(
        "004/fact-1:increasing",
        at_most(lambda i: _sigma_l(i, "u"), lambda i: _sigma_l(i, "v")),
        INTERVALS,
        search=_SEARCH,
    ),
    deterministic(
        "004/fact-1:concave",
        at_least(
            lambda i: _sigma_l({"m": (i["u"] + i["v"]) / 2}, "m"), lambda i: (_sigma_l(i, "u") + _sigma_l(i, "v")) / 2
        ),
        INTERVALS,
        search=_SEARCH,
    ),
    *_printed("fact-1:length-half", "length_half", 0.5399, 1e-4, None),
    *_printed("fact-1:length-slope", "length_slope", 0.8428, 1e-4, None),
    deterministic(
        "004/fact-1:bias-convex",
        at_most(lambda i: _bias_at((i["u"] + i["v"]) / 2), lambda i: (_bias_at(i["u"]) + _bias_at(i["v"])) / 2),
        INTERVALS,
        search=_SEARCH,
        scale=0.003,
    ),
    deterministic(
        "004/fact-1:bias-minimum",
        at_least(lambda i: _bias_at(i["u"]), lambda i: _bias_at(i["u"] * 0 + 1)),
        INTERVALS,
        search=_SEARCH,
        scale=0.003,
    ),
    *_printed("fact-1:bias-half", "bias_half", 0.00086, 1e-5, None),
    *_printed("fact-1:bias-two", "bias_two", 0.0029, 1e-4, None),
    *_printed("fact-1:rate-below", "rate_below", 0.0798, 1e-4, 0.0800),
    *_printed("fact-1:rate-above", "rate_above", 0.1572, 1e-4, None),
    *_printed("thm-59:excess", "excess", 0.0185, 1e-4, None),
    deterministic(
        "004/fact-1:eq-28", at_most(lambda i: _bias_at(i["u"]), _chord), INTERVALS, search=_SEARCH, scale=0.003
    ),
    deterministic(
        "004/thm-59",
        at_most(_after, _theorem),
        {"random": _pairs},
        exact=_theorem_exact,
        hypotheses=lambda i: bool(abs(i["rho"]) < 1 - 0.0186),
        scale=1,
        tolerance=1e-7,
        counts=(20, 80),
    ),
    empirical(
        "004/fig-2:positive",
        at_most(lambda i: abs(_normrelu(i["x"]) - _selu(i["x"])), 0.05),
        {"points": lambda rng, count: ({"x": float(x)} for x in (0.0, 1.0, 2.0, 3.0, 4.0))},
        scale=1,
    ),
    empirical(
        "004/fig-2:negative", vanishes(lambda i: _normrelu(i["x"]) - _normrelu(i["x"] * 0 - 2)), {"points": _apart}
    ),
)
