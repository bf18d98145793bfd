"""Thirty-digit references for Gaussian moments, Hermite coefficients and kernel maps, independent of the library.

Smooth functions: Hermite coefficients by the trapezoidal rule, which converges geometrically for functions analytic in
a strip, then κ(ρ) = Σ c_k² ρ^k. Piecewise polynomial–exponential functions: ∫ φ(x) p(x) P(x) dx with the conditional
expectation P(x) = E φ(ρx + √(1 − ρ²) Z) from truncated Gaussian moments. Softsign: κ(1) − κ(ρ) = ½E (φ(X) − φ(Y))² in
the independent coordinates (X ± Y)/2. Run as a script it writes `activations.json`; tests recompute a few entries live.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

DIGITS = 32  # printed
RHOS = ("-0.99", "-0.5", "0.3", "0.9", "0.999")
GAPS = ("1e-3", "1e-8", "1e-12", "1e-15")
ORDER = 10
mp.dps = 60


def density(x: mpf) -> mpf:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


@cache
@mp.workdps(60)  # cached: the caller's precision must not decide
def gauss_rule(order: int) -> list[tuple[mpf, mpf]]:
    """Gauss–Legendre nodes and weights on [−1, 1] by Newton's method."""
    rule = []
    for i in range(order):
        x = mp.cos(mp.pi * (i + mpf(3) / 4) / (order + mpf(1) / 2))
        for _ in range(60):
            before, here = mpf(1), x
            for k in range(1, order):
                before, here = here, ((2 * k + 1) * x * here - k * before) / (k + 1)
            slope = order * (before - x * here) / (1 - x * x)
            step = here / slope
            x -= step
            if abs(step) < mpf(10) ** (-mp.dps + 5):
                break
        rule.append((x, 2 / ((1 - x * x) * slope * slope)))
    return rule


def nodes(edges: Sequence[mpf], order: int = 40) -> list[tuple[mpf, mpf]]:
    """Nodes and weights of the composite rule."""
    out = []
    for left, right in itertools.pairwise(edges):
        centre, half = (left + right) / 2, (right - left) / 2
        out += [(centre + half * x, half * w) for x, w in gauss_rule(order)]
    return out


# --- smooth functions -------------------------------------------------------------------------------------------------


def _sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: mpf) -> mpf:
    return mp.log1p(mp.exp(-abs(x))) + max(x, mpf(0))


def _mish(x: mpf) -> mpf:
    return x * mp.tanh(_softplus(x))


def _mish_slope(x: mpf) -> mpf:
    t = mp.tanh(_softplus(x))
    return t + x * (1 - t * t) * _sigmoid(x)


SMOOTH: dict[str, tuple[Callable[[mpf], mpf], Callable[[mpf], mpf]]] = {
    "exp": (mp.exp, mp.exp),
    "erf": (mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)),
    "sin": (mp.sin, mp.cos),
    "tanh": (mp.tanh, lambda x: mp.sech(x) ** 2),
    "gelu": (lambda x: x * mp.ncdf(x), lambda x: mp.ncdf(x) + x * density(x)),
    "silu": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
    "mish": (_mish, _mish_slope),
    "softplus": (_softplus, _sigmoid),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    "gaussian": (lambda x: mp.exp(-x * x), lambda x: -2 * x * mp.exp(-x * x)),
}


def smooth_coefficients(phi: Callable[[mpf], mpf], reach: int = 26, per_unit: int = 16) -> list[mpf]:
    """c_k until Parseval's identity leaves less than 1e-40, also for Σ k c_k²."""
    h = mpf(1) / per_unit
    x = [h * i for i in range(-reach * per_unit, reach * per_unit + 1)]
    root = [mp.exp(-t * t / 4) / mp.root(2 * mp.pi, 4) for t in x]
    weighted = [phi(t) * r * h for t, r in zip(x, root, strict=True)]
    second = mp.fsum(v * v for v in weighted) / h
    previous, current = [mpf(0)] * len(x), root
    out: list[mpf] = []
    left = second
    for k in range(1600):
        out.append(mp.fdot(weighted, current))
        left -= out[-1] ** 2
        if k > 12 and abs(left) * (k + 1) < mpf(10) ** -40 * second:
            return out
        a, b = mp.sqrt(k), 1 / mp.sqrt(k + 1)
        previous, current = current, [(t * c - a * p) * b for t, c, p in zip(x, current, previous, strict=True)]
    raise ArithmeticError("the Hermite series did not converge")


def smooth_reference(name: str) -> dict[str, Any]:
    phi, slope = SMOOTH[name]
    c = smooth_coefficients(phi)
    h = mpf(1) / 16
    grid = [h * i for i in range(-26 * 16, 26 * 16 + 1)]
    slope_second = h * mp.fsum(slope(t) ** 2 * density(t) for t in grid)
    squares = [v * v for v in c]
    second = mp.fsum(squares)
    assert abs(mp.fsum(k * a for k, a in enumerate(squares)) / slope_second - 1) < mpf(10) ** -30
    a = [v / second for v in squares]

    def kernel(rho: mpf) -> mpf:
        return mp.polyval(a[::-1], rho)

    def kernel_slope(rho: mpf) -> mpf:
        return mp.polyval([k * v for k, v in enumerate(a)][:0:-1], rho)

    def gap(delta: mpf) -> mpf:
        return mp.fsum(-v * mp.expm1(k * mp.log1p(-delta)) for k, v in enumerate(a))

    return assemble(c, second, slope_second, slope_second / second, kernel, kernel_slope, gap)


# --- piecewise polynomial–exponential functions -----------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Σ polynomial_j x^j + exponential·eˣ on (left, right)."""

    left: mpf
    right: mpf
    polynomial: tuple[mpf, ...]
    exponential: mpf

    def __call__(self, x: mpf) -> mpf:
        value = mp.polyval(self.polynomial[::-1], x) if self.polynomial else mpf(0)
        return value + (self.exponential * mp.exp(x) if self.exponential else 0)

    def derivative(self) -> Piece:
        lower = tuple(j * c for j, c in enumerate(self.polynomial))[1:]
        return Piece(self.left, self.right, lower, self.exponential)

    def conditional(self, mean: mpf, sd: mpf) -> mpf:
        """E of the piece under N(mean, sd²)."""
        ends = [(e - mean) / sd for e in (self.left, self.right)]
        cdf = [mp.ncdf(e) if mp.isfinite(e) else mpf(e > 0) for e in ends]
        pdf = [density(e) if mp.isfinite(e) else mpf(0) for e in ends]
        # moments of a truncated standard Gaussian: m_j = (j − 1) m_{j−2} − [z^{j−1} p(z)]
        m = [cdf[1] - cdf[0]]
        total = mpf(0)
        for j in range(1, len(self.polynomial)):
            edge = [(e ** (j - 1) if mp.isfinite(e) else mpf(0)) * p for e, p in zip(ends, pdf, strict=True)]
            m.append((j - 1) * (m[j - 2] if j > 1 else 0) - (edge[1] - edge[0]))
        for j, c in enumerate(self.polynomial):
            if c:
                total += c * mp.fsum(mp.binomial(j, i) * mean ** (j - i) * sd**i * m[i] for i in range(j + 1) if m[i])
        if self.exponential:
            shifted = [mp.ncdf(e - sd) if mp.isfinite(e) else mpf(e > 0) for e in ends]
            total += self.exponential * mp.exp(mean + sd * sd / 2) * (shifted[1] - shifted[0])
        return total


Pieces = tuple[Piece, ...]


def _pieces(kinks: Sequence[Any], *bodies: Any) -> Pieces:
    """Pieces between kinks; a body is a polynomial, or (polynomial, exponential coefficient)."""
    edges = [-mp.inf, *(mpf(k) for k in kinks), mp.inf]
    out = []
    for left, right, body in zip(edges[:-1], edges[1:], bodies, strict=True):
        polynomial, exponential = body if isinstance(body[0], tuple) else (body, 0)
        out.append(Piece(left, right, tuple(mpf(c) for c in polynomial), mpf(exponential)))
    return tuple(out)


_SELU = mpf("1.0507009873554804934193349852946")
_ALPHA = mpf("1.6732632423543772848170429916717")


def _normrelu(c: mpf) -> Pieces:
    p, below = density(c), mp.ncdf(c)
    b = (1 - below) * c - p
    scale = 1 / mp.sqrt((1 - below) * below * c * c + (1 - 2 * below) * p * c + 1 - below - p * p)
    return _pieces([c], (scale * b,), (scale * (b - c), scale))


PIECEWISE: dict[str, Pieces] = {
    "relu": _pieces([0], (0,), (0, 1)),
    "leaky_relu(0.1)": _pieces([0], (0, "0.1"), (0, 1)),
    "sign": _pieces([0], (-1,), (1,)),
    "step": _pieces([0], (0,), (1,)),
    "relu2": _pieces([0], (0,), (0, 0, 1)),
    "elu": _pieces([0], ((-1,), 1), (0, 1)),
    "selu": _pieces([0], ((-_SELU * _ALPHA,), _SELU * _ALPHA), (0, _SELU)),
    "hardtanh": _pieces([-1, 1], (-1,), (0, 1), (1,)),
    "hardswish": _pieces([-3, 3], (0,), (0, mpf(1) / 2, mpf(1) / 6), (0, 1)),
    "normrelu(-1.5975)": _normrelu(mpf("-1.5975")),
}
_REACH = 17


def pair_expectation(f: Pieces, rho: mpf, gap: mpf | None = None) -> mpf:
    """E f(X) f(Y) for corr(X, Y) = ρ; the precision leaves room for the cancellation in κ(1) − κ(1 − gap)."""
    sd = mp.sqrt(gap * (2 - gap)) if gap is not None else mp.sqrt((1 - rho) * (1 + rho))
    kinks = [piece.left for piece in f[1:]]
    edges = {mpf(i) for i in range(-_REACH, _REACH + 1)}
    for kink in kinks:
        centre = kink if rho > 0 else -kink  # where ρx meets the kink, up to rounding of the layer's width
        edges |= {kink} | {centre + 2 * j * sd for j in range(-9, 10)}
    inside = sorted(e for e in edges if abs(e) <= _REACH)
    busy = [piece for piece in f if any(piece.polynomial) or piece.exponential]
    total = mpf(0)
    for left, right in itertools.pairwise(inside):
        piece = next(p for p in f if p.left <= (left + right) / 2 < p.right)
        if piece not in busy:
            continue
        for x, w in nodes([left, right], 32):
            here = density(x) * piece(x) * w
            total += here * mp.fsum(q.conditional(rho * x, sd) for q in busy)
    return total


def piecewise_moment(f: Pieces, weight: Callable[[mpf, mpf], mpf]) -> mpf:
    """E weight(X, f(X))."""
    total = mpf(0)
    for piece in f:
        low, high = max(piece.left, mpf(-20)), min(piece.right, mpf(20))
        count = int(mp.ceil(high - low))
        edges = [low + (high - low) * i / count for i in range(count + 1)]
        total += mp.fsum(w * density(x) * weight(x, piece(x)) for x, w in nodes(edges))
    return total


def hermite_value(order: int, x: mpf) -> mpf:
    before, here = mpf(0), mpf(1)
    for k in range(order):
        before, here = here, (x * here - mp.sqrt(k) * before) / mp.sqrt(k + 1)
    return here


def piecewise_reference(name: str) -> dict[str, Any]:
    f = PIECEWISE[name]
    slope = tuple(piece.derivative() for piece in f)
    jumping = any(abs(a(b.left) - b(b.left)) > mpf(10) ** -40 for a, b in itertools.pairwise(f))
    c = [piecewise_moment(f, lambda x, y, k=k: y * hermite_value(k, x)) for k in range(ORDER + 1)]
    second = piecewise_moment(f, lambda x, y: y * y)
    slope_second = piecewise_moment(slope, lambda x, y: y * y)

    def kernel(rho: mpf) -> mpf:
        return pair_expectation(f, rho) / second

    def kernel_slope(rho: mpf) -> mpf:
        value = pair_expectation(slope, rho)
        for a, b in itertools.pairwise(f):
            if abs(a(b.left) - b(b.left)) > mpf(10) ** -40:
                assert b.left == 0  # a jump at zero of a function with zero slope: density of (X, Y) at the origin
                value += (b(b.left) - a(b.left)) ** 2 / (2 * mp.pi * mp.sqrt(1 - rho * rho))
        return value / second

    def gap(delta: mpf) -> mpf:
        return (second - pair_expectation(f, 1 - delta, delta)) / second

    at_one = mp.inf if jumping else slope_second / second
    return assemble(c, second, slope_second, at_one, kernel, kernel_slope, gap)


# --- softsign ---------------------------------------------------------------------------------------------------------


def softsign_deficit(delta: mpf) -> mpf:
    """κ(1) − κ(1 − δ) = ½E (φ(y + w) − φ(y − w))², y ~ N(0, 1 − δ/2), w ~ N(0, δ/2), δ ≤ 1; all terms positive."""
    c, s = mp.sqrt(1 - delta / 2), mp.sqrt(delta / 2)
    total = mpf(0)
    far = [mpf(e) for e in (0, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)]
    for v, weight in nodes([mpf(e) for e in (0, 0.5, 1, 2, 3, 4, 6, 8, 10, 12)], 30):
        w = s * v
        inner = mpf(0)
        for t, q in nodes([w + c * e for e in far], 22):  # both on one side: the difference in closed form
            inner += q * mp.exp(-((t / c) ** 2) / 2) * (2 * w / ((1 + t + w) * (1 + t - w))) ** 2
        cut = [w * mpf(i) / 9 for i in range(10)] if w > 0.5 else [mpf(0), w]
        for t, q in nodes(cut, 30):  # zero in between
            inner += q * mp.exp(-((t / c) ** 2) / 2) * ((w + t) / (1 + w + t) + (w - t) / (1 + w - t)) ** 2
        total += weight * density(v) * 2 * inner / (c * mp.sqrt(2 * mp.pi))
    return total  # ½ · 2, the symmetry of v


def softsign_reference() -> dict[str, Any]:
    def phi(x: mpf) -> mpf:
        return x / (1 + abs(x))

    edges = [mpf(i) / 2 for i in range(-36, 37)]
    rule = nodes(edges)
    second = mp.fsum(w * density(x) * phi(x) ** 2 for x, w in rule)
    slope_second = mp.fsum(w * density(x) / (1 + abs(x)) ** 4 for x, w in rule)
    c = [mp.fsum(w * density(x) * phi(x) * hermite_value(k, x) for x, w in rule) for k in range(ORDER + 1)]
    return assemble(
        c,
        second,
        slope_second,
        slope_second / second,
        lambda rho: mp.sign(rho) * (1 - softsign_deficit(1 - abs(rho)) / second),  # odd
        None,
        lambda delta: softsign_deficit(delta) / second,
    )


# --- assembly ---------------------------------------------------------------------------------------------------------


def interior_fixed_point(kernel: Any, kernel_slope: Any) -> tuple[mpf, mpf]:
    """The root of κ(ρ) = ρ in (0, 1): κ is convex on [0, 1], so Newton's method rises to it from zero."""
    rho = mpf(0)
    for _ in range(40):
        step = (kernel(rho) - rho) / (kernel_slope(rho) - 1)
        rho -= step
        if abs(step) < mpf(10) ** -20:  # quadratic convergence: the next error is its square
            break
    return rho, kernel_slope(rho)


def assemble(
    c: Any, second: mpf, slope_second: mpf, at_one: mpf, kernel: Any, kernel_slope: Any, gap: Any
) -> dict[str, Any]:
    root = mp.sqrt(second)
    scaled = [v / root for v in c[: ORDER + 1]]
    at_zero, slope_at_zero = scaled[0] ** 2, scaled[1] ** 2
    out: dict[str, Any] = {
        "mean": c[0],
        "second_moment": second,
        "slope_second_moment": slope_second,
        "hermite": scaled,
        "kernel_at_zero": at_zero,
        "kernel_slope_at_zero": slope_at_zero,
        "kernel_slope_at_one": at_one,
        "kernel": {text: kernel(mpf(text)) for text in RHOS},
        "gap": {text: gap(mpf(text)) for text in GAPS},
        "fixed_point": None,
        "slope_at_fixed_point": None,
    }
    if at_zero > mpf(10) ** -25 and at_one > 1 + mpf(10) ** -25:
        out["fixed_point"], out["slope_at_fixed_point"] = interior_fixed_point(kernel, kernel_slope)
    return out


NAMES = (*SMOOTH, *PIECEWISE, "softsign")


def reference(name: str) -> dict[str, Any]:
    """All reference quantities of one activation as mpf."""
    if name in SMOOTH:
        return smooth_reference(name)
    return piecewise_reference(name) if name in PIECEWISE else softsign_reference()


def as_text(value: Any) -> Any:
    """Decimal strings all through; what is below 1e-30 is zero."""
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if value is None:
        return None
    if mp.isinf(value):
        return "inf"
    return "0" if abs(value) < mpf(10) ** -30 else mp.nstr(value, DIGITS)


def main() -> None:
    names = sys.argv[1:] or NAMES
    out = Path(__file__).with_name("activations.json")
    table = json.loads(out.read_text()) if out.exists() and sys.argv[1:] else {}
    for name in names:
        table[name] = as_text(reference(name))
        print(name, flush=True)
    out.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
