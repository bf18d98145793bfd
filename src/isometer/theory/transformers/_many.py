"""Attention over very many tokens: the random energy model, with its condensed and uncondensed phase.

Scores of a row are T independent Gaussians of variance β² log T, so softmax is the Gibbs measure of Derrida's random
energy model (Giorlandino and Goldt 2025 read attention so). As T grows:

- β < √2, uncondensed: the entropy is (1 − β²/2) log T; a query reads a number of tokens that grows like a power of T.
  The mean of Σ A_j² falls like T^(β² − 1) up to β² = 2/3, and like T^(−(1/β − β/2)²/2) beyond, where rare rows with one
  score ahead of the sum of all others decide it.
- β > √2, condensed: weights follow the Poisson–Dirichlet law of index m = √2/β. A query reads finitely many tokens:
  E Σ A_j² = 1 − m, and the entropy is ψ(1) − ψ(1 − m) nats.

Two queries whose tokens differ read different keys, so in the limit attention takes the gap g = 1 − cosine of tokens to
g P/(1 − g(1 − P)) with P = E Σ A_j²: to 0 without condensation.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from scipy.special import digamma

from isometer.errors import IsometerError

CRITICAL = math.sqrt(2.0)
"""β at which attention condenses."""


class ManyTokens(NamedTuple):
    """A row of attention as the number of tokens T grows.

    Attributes:
        strength: β, the standard deviation of scores over √log T.
        phase: `"uncondensed"` below √2, `"condensed"` above.
        entropy_share: limit of the entropy over log T.
        entropy: limit of the entropy in nats; infinite without condensation.
        participation: limit of E Σ A_j²; 0 without condensation.
        participation_exponent: exponent of T in E Σ A_j².
        slope: limit of E tr J² of the Jacobian of softmax, J = diag(A) − AAᵀ.
        gap: 1 − cosine of two tokens after attention.
        length: their mean square, over that before.
    """

    strength: float
    phase: Literal["uncondensed", "condensed"]
    entropy_share: float
    entropy: float
    participation: float
    participation_exponent: float
    slope: float
    gap: float
    length: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()


def many_tokens(strength: float, gap: float = 1.0) -> ManyTokens:
    """The limit of many tokens whose scores vary by β² log T.

    Args:
        strength: β for orthogonal tokens of the same length: κ/√log T with κ the standard deviation of their scores,
            so `qk_gain`²/√log T of `gpt` with a norm before attention.
        gap: g, 1 − cosine of two tokens; scores of such tokens vary by gβ² log T.

    Example:
        >>> cold = many_tokens(2.0)  # m = 1/√2
        >>> cold.phase, round(cold.participation, 6), round(cold.entropy, 6)
        ('condensed', 0.292893, 3.01428)
        >>> warm = many_tokens(1.0)
        >>> warm.phase, warm.entropy_share, warm.participation_exponent
        ('uncondensed', 0.5, -0.125)
    """
    if not (math.isfinite(strength) and strength >= 0.0):
        raise IsometerError(f"strength is {strength}; expected a finite number of at least 0, such as 1.2")
    if not 0.0 <= gap <= 1.0:
        raise IsometerError(f"gap is {gap}; expected 1 − cosine of two tokens, from 0 to 1")
    beta = strength * math.sqrt(gap)
    condensed = beta > CRITICAL
    share = 0.0 if condensed else 1.0 - beta**2 / 2
    if not condensed:
        # without condensation orthogonal tokens keep a gap of one only at g = 1: their rows are independent
        left = 0.0 if gap < 1.0 else _uncorrelated_gap(beta)
        return ManyTokens(beta, "uncondensed", share, math.inf, 0.0, _exponent(beta), 0.0, left, 1.0 - gap)
    index = CRITICAL / beta
    second = 1.0 - index
    length = 1.0 - gap * (1.0 - second)
    return ManyTokens(
        beta,
        "condensed",
        share,
        float(digamma(1.0) - digamma(1.0 - index)),
        second,
        0.0,
        _slope(index),
        gap * second / length,
        length,
    )


def critical_gain(tokens: int, gap: float = 1.0) -> float:
    """The `qk_gain` at which attention over T tokens condenses: gain² √g = √(2 log T).

    Args:
        tokens: T.
        gap: 1 − cosine of two tokens, of mean square 1 as after a norm.

    Example:
        >>> round(critical_gain(1024), 4), round(critical_gain(16384), 4)
        (1.9296, 2.0989)
    """
    if tokens < 2 or not 0.0 < gap <= 1.0:
        raise IsometerError(f"{tokens} tokens of gap {gap:g}; expected at least 2, and a gap above 0 and up to 1")
    return math.sqrt(math.sqrt(2.0 * math.log(tokens) / gap))


def _exponent(beta: float) -> float:
    if beta**2 <= 2.0 / 3.0:
        return beta**2 - 1.0
    return -0.5 * (1.0 / beta - beta / 2.0) ** 2


def _uncorrelated_gap(beta: float) -> float:
    """(P − 1/T)/P: 0 for scores that do not vary, 1 as soon as P falls more slowly than 1/T."""
    return 1.0 if beta > 0.0 else 0.0


def _slope(index: float) -> float:
    """E[Σp² − 2Σp³ + (Σp²)²] of the Poisson–Dirichlet law of this index, by its partition probabilities."""
    rest = 1.0 - index
    second = rest
    third = rest * (1.0 + rest) / 2.0
    fourth = rest * (1.0 + rest) * (2.0 + rest) / 6.0
    pairs = index * rest**2 / 6.0
    return second - 2.0 * third + fourth + pairs
