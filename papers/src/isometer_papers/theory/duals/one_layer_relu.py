"""One layer of ReLU makes inputs that are not parallel linearly independent: how much, and what is promised (004 H)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.activations import Activation, activation
from isometer.errors import IsometerError

Floats = NDArray[np.float64]


def _check(n: int, delta: float) -> None:
    if not 0.0 < delta <= 1.0 or n < 1:
        raise IsometerError(
            f"004/thm-56 takes n ≥ 1 unit vectors with |x·x′| ≤ 1 − δ, δ in (0, 1]; got {n!r}, {delta!r}"
        )


def one_layer_smallest_bound(n: int, delta: float) -> float:
    """(δ^{3/4}/(2000 n^{3/2}))², the lower bound on λ_min(ΦᵀΦ) in the proof of 004/thm-56, for ReLU as given.

    Implements 004/thm-56.

    Example:
        >>> from isometer_papers.theory.duals.one_layer_relu import one_layer_smallest_bound
        >>> one_layer_smallest_bound(1, 1.0)
        2.5e-07
    """
    _check(n, delta)
    return float(delta**1.5) / (4e6 * n**3)


def one_layer_width(n: int, delta: float) -> dict[str, float]:
    """Widths, up to unnamed constants: n⁸log(n/δ)/δ³ of 004/thm-56 and n⁴log(n)/δ³ of the note below it.

    Example:
        >>> from isometer_papers.theory.duals.one_layer_relu import one_layer_width
        >>> width = one_layer_width(10, 0.1)
        >>> width["note"] < width["theorem"]
        True
    """
    _check(n, delta)
    return {"theorem": n**8 * math.log(n / delta) / delta**3, "note": n**4 * math.log(n) / delta**3}


def circle_spectrum(n: int) -> Floats:
    """Eigenvalues, ascending, of the one-layer ReLU kernel on n equally spaced points of a circle, n odd.

    The kernel (sin θ + (π − θ)cos θ)/2π has the Fourier coefficients c_{±1} = 1/8, c_k = 2/(π²(k² − 1)²) for even k,
    and zero for other odd k; n points fold them onto residues modulo n, so the smallest is of order n⁻³, or δ^{3/2}.
    With n even half of the points are antipodes of the others, and the matrix is singular from n = 6 on.

    Example:
        >>> from isometer_papers.theory.duals.one_layer_relu import circle_spectrum
        >>> round(float(circle_spectrum(3).sum()), 12)  # the trace, 3·½
        1.5
    """
    if n < 1 or n % 2 == 0:
        raise IsometerError(f"n must be odd: with n even the points are pairs of antipodes; got {n!r}")
    theta = 2 * math.pi * np.arange(n) / n
    theta = np.minimum(theta, 2 * math.pi - theta)
    values = (np.sin(theta) + (math.pi - theta) * np.cos(theta)) / (2 * math.pi)
    # the matrix is circulant: its eigenvalues are the Fourier transform of its first row
    return np.sort(np.fft.fft(values).real)


def good_event_bound(n: int, delta: float) -> float:
    """√δ/(50n), the least probability of 004/lem-57.

    Example:
        >>> from isometer_papers.theory.duals.one_layer_relu import good_event_bound
        >>> good_event_bound(2, 1.0)
        0.01
    """
    _check(n, delta)
    return math.sqrt(delta) / (50 * n)


def good_event_probability(
    inputs: ArrayLike, *, theta: float | None = None, draws: int = 200_000, seed: int = 0
) -> tuple[float, float]:
    """P(|w·x₁| ≤ √δ/10n and |w·x_i| > √δ/4n for i > 1), w = √(1 − θ²)z x₁ + g, by drawing; and its standard error.

    The rare first event is drawn by conditioning on it exactly, so that the error is relative to the probability.

    Implements 004/lem-57.

    Args:
        inputs: (n, d) unit vectors; the first is the x₁ of the lemma.
        theta: θ; by default δ^{1/4}/(5n) as the lemma has it (the proof of 004/thm-56 takes √δ/(5n)).
        draws: number of draws.
        seed: seed of the draws.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.duals.one_layer_relu import good_event_bound, good_event_probability
        >>> found, error = good_event_probability(np.eye(3), draws=1000)
        >>> found > good_event_bound(3, 1.0)
        True
    """
    from scipy.special import ndtr, ndtri

    x = np.asarray(inputs, dtype=float)
    n = len(x)
    cosines = x[1:] @ x[0]
    delta = 1.0 - float(np.max(np.abs(x @ x.T - np.eye(n)), initial=0.0))
    _check(n, delta)
    mix = delta**0.25 / (5 * n) if theta is None else float(theta)
    root = math.sqrt(delta)
    spread = math.sqrt(1.0 - mix**2)
    inside = 2.0 * float(ndtr(root / (10 * n) / spread)) - 1.0  # P(|w·x₁| ≤ √δ/10n)
    rng = np.random.default_rng(seed)
    along = spread * ndtri(0.5 + inside * (rng.random(draws) - 0.5))  # w·x₁ given that
    across = rng.standard_normal((draws, x.shape[1]))
    apart = x[1:] - cosines[:, None] * x[0]
    # w·x_i = c_i (w·x₁) + w·(x_i − c_i x₁): the second part is independent of the conditioned one
    hit = (np.abs(along[:, None] * cosines + across @ apart.T) > root / (4 * n)).all(axis=1)
    share = float(hit.mean())
    return inside * share, inside * math.sqrt(share * (1.0 - share) / draws)


def hermite_parities(source: str | Activation | Any, order: int = 40) -> tuple[int, int]:
    """How many Hermite coefficients of even and of odd degree up to `order` are not zero.

    004/thm-58 asks for infinitely many of both. ReLU and GELU have a single odd one (their odd part is x/2), so the
    theorem as printed says nothing about them; under 004/asm-A, which excludes antipodes, either parity is enough.

    Implements 004/thm-58.

    Example:
        >>> from isometer_papers.theory.duals.one_layer_relu import hermite_parities
        >>> hermite_parities("relu")
        (21, 1)
    """
    phi = activation(source)
    squares = phi.hermite(order) ** 2
    # coefficients that vanish come out at the size of rounding
    present = squares > 1e-22 * phi.second_moment
    return int(present[::2].sum()), int(present[1::2].sum())
