"""Very many tokens: quadrature at log T up to 1600, and finite T by the integrals of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.attention import pair_moments, row_moments
from isometer.theory.transformers import (
    CRITICAL,
    PresetPlane,
    SpecPlane,
    critical_gain,
    many_tokens,
    token_diagram,
    token_path,
)


def _row(strength: float, log_tokens: float) -> tuple[float, float]:
    """log E Σ A² and the entropy of T = e^log_tokens scores, from F(x) = E exp(−e^(x + s)) of one score s.

    F^T is the chance that log(exponential variable) − log Z exceeds x, which gives E log Z, and E Σ A² is
    T ∫ E[e^(2(x + s)) exp(−e^(x + s))] F^T dx. Both integrals over u = x + s are smooth sums, in logarithms.
    """
    sigma = strength * math.sqrt(log_tokens)
    condensed = strength > CRITICAL
    middle = -sigma * math.sqrt(2 * log_tokens) if condensed else -(log_tokens + sigma**2 / 2)
    x = np.arange(middle - 100.0, middle + 50.0, 0.25)
    lowest = -30 / (1 - CRITICAL / strength) if condensed else middle + sigma**2 - 8 * sigma
    u = np.arange(min(lowest, -40.0), 5.0, 0.25)
    score = (u - x[:, None]) / sigma
    step = math.log(0.25)
    missing = logsumexp(u - np.exp(u) + norm.logsf(score) + step, axis=1) + log_tokens  # log T(1 − F)
    second = logsumexp(2 * u - np.exp(u) + norm.logpdf(score) - math.log(sigma) + step, axis=1) + log_tokens
    log_whole = -np.exp(np.minimum(missing, 7.0))  # log F^T
    participation = float(logsumexp(second + log_whole + step))
    log_total = -np.euler_gamma - (x[0] - 0.125 + 0.25 * float(np.exp(log_whole).sum()))
    return participation, log_total + sigma**2 * math.expm1(participation)


def test_the_quadrature_at_few_tokens_is_that_of_rows() -> None:
    """The reference of the next test against other integrals: to 1e-3, since F^T is taken as e^(−T(1 − F))."""
    found, exact = _row(1.7, math.log(2**14)), row_moments(1.7 * math.sqrt(math.log(2**14)), 2**14)
    assert (math.exp(found[0]), found[1]) == pytest.approx((exact.participation, exact.entropy), rel=1e-3)


@pytest.mark.parametrize("strength", [1.8, 2.5, 4.0])
def test_condensed_attention_is_poisson_dirichlet(strength: float) -> None:
    """The index at finite T is larger by log(4π log T)/(4 log T), so departures fall like that."""
    limit = many_tokens(strength)
    assert limit.phase == "condensed"
    departures = []
    for log_tokens in (100.0, 400.0, 1600.0):
        logarithm, entropy = _row(strength, log_tokens)
        participation = math.exp(logarithm)
        share = math.log(4 * math.pi * log_tokens) / (4 * log_tokens)
        index = CRITICAL / strength * (1 - share)
        assert participation == pytest.approx(1 - index, abs=0.4 * share)  # of second order in share
        departures.append((abs(participation - limit.participation), abs(entropy - limit.entropy)))
    first, _, last = departures
    assert last[0] < 0.15 * first[0]
    assert last[1] < 0.2 * first[1]
    assert last[1] < 0.02 * limit.entropy


@pytest.mark.parametrize("strength", [0.5, 0.7, 1.0, 1.2])
def test_uncondensed_attention_reads_a_power_of_the_tokens(strength: float) -> None:
    limit = many_tokens(strength)
    assert limit.phase == "uncondensed"
    (one, low), (two, high) = _row(strength, 400.0), _row(strength, 800.0)
    assert (two - one) / 400.0 == pytest.approx(limit.participation_exponent, abs=2e-3)
    assert (high - low) / 400.0 == pytest.approx(limit.entropy_share, abs=2e-3)


def test_the_slope_of_condensed_attention() -> None:
    """E tr J² of 40000 drawn Poisson–Dirichlet weights: 4.5 standard errors, under 2.5 % of the value."""
    rng = np.random.default_rng(5)
    for strength in (2.0, 4.0):
        times = rng.exponential(size=(40_000, 400)).cumsum(axis=1)
        power = strength / CRITICAL
        weights = times**-power
        rest = times[:, -1:] ** (1 - power) / (power - 1)  # the mean of the points behind the last
        weights /= weights.sum(axis=1, keepdims=True) + rest
        square = (weights**2).sum(axis=1)
        drawn = square - 2 * (weights**3).sum(axis=1) + square**2
        error = 4.5 * drawn.std() / 200
        assert error < 0.025 * drawn.mean()
        assert many_tokens(strength).slope == pytest.approx(drawn.mean(), abs=error)


def test_different_queries_read_different_keys() -> None:
    """The overlap of two rows over E Σ A² falls as tokens become more, at any gap, so gaps follow gP/(1 − g(1 − P))."""
    shares = []
    for tokens in (2**6, 2**12, 2**20):
        width = 2.5 * math.sqrt(math.log(tokens))
        shares.append(1 - pair_moments(width, 0.6, tokens).distance / row_moments(width, tokens).participation)
    assert shares[0] > 2 * shares[2] > 0.0
    cold = many_tokens(3.0, 0.6)
    assert cold.gap == pytest.approx(0.6 * cold.participation / cold.length)
    assert many_tokens(1.0, 0.6).gap == 0.0


def test_the_critical_gain_is_where_the_strength_of_scores_is() -> None:
    tokens = 256
    gain = critical_gain(tokens, 0.75)
    spec = Spec(f"gpt(blocks=1, width=64, heads=8, tokens={tokens}, hidden=0, causal=False, qk_gain={gain})")
    path = token_path(spec, cosine=0.25)
    assert path.score_strength[1, 0] == pytest.approx(CRITICAL, rel=1e-9)


def test_tokens_are_an_axis_of_diagrams() -> None:
    """Lines of points that run side by side against single networks; and the entropy limit is that of each length."""
    text = "gpt(blocks=3, width=64, heads=8, tokens=9, norm='post', causal=False)"
    plane = PresetPlane(text, "tokens", "qk_gain")
    other = SpecPlane(Spec(text), "tokens", "qk_gain")
    found = token_diagram(plane, [4, 64], [0.5, 1.0, 3.0])
    assert found.tokens.tolist() == [[4, 64]] * 3
    for j, i in ((0, 1), (2, 0), (2, 1)):
        alone = token_path(other(found.x[i], found.y[j]), backward=True)
        for name in ("token_cosine", "attention_entropy", "attention_participation", "score_strength"):
            assert getattr(found, name)[j, i] == pytest.approx(getattr(alone, name)[-1, 0], rel=1e-9), name
    assert found.attention_entropy[0, 1] > found.attention_entropy[0, 0]


def test_bad_numbers_are_named() -> None:
    for call, words in (
        (lambda: many_tokens(-1.0), "at least 0"),
        (lambda: many_tokens(1.0, 2.0), "from 0 to 1"),
        (lambda: critical_gain(1), "at least 2"),
        (lambda: SpecPlane(Spec("input(8, [4]) > attention(2)"), "branch", "tokens"), "no step whose branch"),
        (lambda: SpecPlane(Spec("input(8, [4]) > attention(2)"), "heads", "tokens"), "unknown number"),
    ):
        with pytest.raises(IsometerError, match=words):
            call()
