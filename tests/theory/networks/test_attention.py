"""Attention at infinite width: against exchangeable tokens, against finite widths, and its degenerate cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.metrics import SEQUENCE_METRICS
from isometer.simulate import simulate
from isometer.spec import Attention, Spec
from isometer.theory.networks import coverage
from isometer.theory.networks._attention_points import rotation_modes
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._interpreter import Passage, passage
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, gaussian
from isometer.theory.networks._weights import Run
from isometer.theory.prediction import predict

Floats = NDArray[np.float64]
_TOKENS, _SAMPLES = 6, 2
_METRICS = [*SEQUENCE_METRICS, "gradient_log_norm"]


def _batch(spec: Spec, cosine: float = 0.3, samples: int = 2, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    width, [tokens] = spec.shape.width, spec.shape.axes
    shared, own = rng.standard_normal((1, width, 1)), rng.standard_normal((samples, width, tokens))
    return math.sqrt(cosine) * shared + math.sqrt(1 - cosine) * own


def _both_ways(spec: Spec, gram: Floats, layout: Layout) -> tuple[Passage, Floats, Squares, float]:
    """The passage of a Gram matrix, and a unit cotangent taken back, with gradients by weights."""
    run = Run(Expectations(), backward=True, attention=[], pairs=True)
    state = FeatureState.of(gaussian(Covariance.of_gram(gram[None]), None), layout, spec.shape.width)
    found = passage(list(spec.executed_layers()), state, run)
    gradient = Gradient.of(np.eye(len(gram))[None], layout, 0.0)
    squares = Squares()
    for back in reversed(found.backs):
        assert back is not None
        gradient = back(gradient, squares)
    return found, gradient.total()[0], squares, run.moments.error


def _classes(matrix: Floats) -> Floats:
    """Means over the same token, tokens of a sample, tokens of two samples."""
    blocks = matrix.reshape(_SAMPLES, _TOKENS, _SAMPLES, _TOKENS)
    same = np.trace(matrix) / len(matrix)
    inside = np.einsum("iaib->", blocks) - np.trace(matrix)
    across = matrix.sum() - np.einsum("iaib->", blocks)
    pairs = _SAMPLES * _TOKENS
    return np.array([same, inside / (pairs * (_TOKENS - 1)), across / (pairs * _TOKENS * (_SAMPLES - 1))])


@pytest.mark.parametrize("options", ["qk_gain=1.4", "qk_gain=1.4, qk_norm=True, value_gain=1.3, head_width=8"])
def test_points_agree_with_integrals_for_exchangeable_tokens(options: str) -> None:
    spec = Spec(
        f"input(32, [{_TOKENS}]) > residual(attention(heads=8, {options})) > residual(norm('layer') > dense(64) > "
        "act('gelu') > dense(32))"
    )
    within, across, square = 0.4, 0.25, 1.7
    gram = np.full((_SAMPLES * _TOKENS,) * 2, across)
    for sample in range(_SAMPLES):
        own = slice(sample * _TOKENS, (sample + 1) * _TOKENS)
        gram[own, own] = within
    np.fill_diagonal(gram, 1.0)
    three = np.array([[1.0, within, across], [within, 1.0, across], [across, across, 1.0]])
    full, back, weights, error = _both_ways(spec, square * gram, Layout(_SAMPLES, (_TOKENS,), full=True))
    exact, exact_back, exact_weights, exact_error = _both_ways(spec, square * three, Layout(3, exchangeable=_TOKENS))
    assert exact_error < 1e-10 < error < 3e-3
    expected = exact.last.second().gram()[0, 0]
    np.testing.assert_allclose(_classes(full.last.second().gram()[0]), expected, atol=4 * error * expected[0])
    np.testing.assert_allclose(_classes(back), exact_back[0], atol=6 * error * exact_back[0, 0])
    assert [one.kind for one in weights.found] == ["dense", "dense", "output", "value", "query", "key"]
    for one, other in zip(weights.found, exact_weights.found, strict=True):
        assert (one.kind, one.entries) == (other.kind, other.entries)
        # those of all samples against those of one
        assert one.log[0] - math.log(_SAMPLES) == pytest.approx(other.log[0], abs=8 * error), one.kind
    entropies = [found.attention[0][0].entropy[0] for found in (full, exact)]
    assert entropies[0] == pytest.approx(entropies[1], rel=6 * error)


_NETWORKS = (
    "gpt(blocks=3, width=256, heads=16, tokens=10, branch=0.5, qk_gain=1.5, causal=False)",
    "gpt(blocks=3, width=256, heads=16, tokens=8, norm='post', qk_gain=1.2)",
    "gpt(blocks=2, width=256, heads=16, tokens=8, norm='sandwich', kind='linear', qk_gain=0.7)",
    "gpt(blocks=2, width=256, heads=16, tokens=8, norm='peri', norm_kind='rms', qk_norm=True, qk_gain=1.5, skip=0.8)",
    "gpt(blocks=2, width=256, heads=16, tokens=8, norm='none', hidden=0, weights='orthogonal', key_heads=4, skip=2)",
    "vit(blocks=2, width=256, heads=16, tokens=9, inputs=20, qk_gain=1.4)",
    "gpt(blocks=2, width=256, heads=16, tokens=8, gated=True, activation='silu', rotary=True, qk_gain=1.6)",
    "gpt(blocks=2, width=256, heads=16, tokens=8, norm_kind='dyt', rotary=True, kind='linear', qk_gain=0.8)",
    "gpt(blocks=3, width=256, heads=16, tokens=8, norm='deep', norm_kind='rms', key_heads=8)",
)


@pytest.mark.parametrize("text", _NETWORKS)
def test_theory_predicts_networks_of_finite_width(text: str) -> None:
    """12 networks of width 256: 4.5 standard errors, and 0.03 for biases of a few 1/heads and 1/head_width."""
    spec = Spec(text)
    batch = _batch(spec)
    theory = predict(spec, batch, metrics=_METRICS)
    drawn = simulate(spec, batch, runs=12, metrics=_METRICS, engine="dense", dtype="float32")
    for name in _METRICS:
        predicted, values = theory[name].values[0], drawn[name].values
        known = np.isfinite(predicted) & np.isfinite(values).all(axis=0)
        assert (np.isfinite(predicted) == np.isfinite(values).all(axis=0)).all(), name
        error = values[:, known].std(axis=0, ddof=1) / math.sqrt(len(values))
        apart = np.abs(values[:, known].mean(axis=0) - predicted[known])
        scale = np.maximum(np.abs(predicted[known]), 1.0) if name != "gradient_log_norm" else 1.0
        assert (apart < 4.5 * error + 0.03 * scale).all(), (name, apart, error)


def test_a_wrong_size_of_scores_is_found() -> None:
    """The power of the test before: with query and key gains 10 % larger, entropies leave the interval."""
    spec, other = (Spec(_NETWORKS[0].replace("1.5", gain)) for gain in ("1.5", "1.65"))
    batch = _batch(spec)
    theory = predict(other, batch, metrics=["attention_entropy"])["attention_entropy"].values[0, 1]
    drawn = simulate(spec, batch, runs=12, metrics=["attention_entropy"], dtype="float32")["attention_entropy"].values
    error = drawn[:, 1].std(ddof=1) / math.sqrt(12)
    assert abs(theory - drawn[:, 1].mean()) > 4.5 * error + 0.03 * theory


def test_the_bias_of_narrow_heads_falls_like_one_over_their_width() -> None:
    biases = []
    for width in (2, 8):
        spec = Spec(f"input(64, [12]) > attention(heads=128, head_width={width}, qk_gain=1.3)")
        batch = _batch(spec, cosine=0.0)
        theory = predict(spec, batch, metrics=["attention_entropy"])["attention_entropy"].values[0, 1]
        drawn = simulate(spec, batch, runs=16, metrics=["attention_entropy"])["attention_entropy"].values[:, 1]
        assert drawn.std(ddof=1) / 4 < 0.01
        biases.append(float(drawn.mean() - theory))
    assert biases[0] > 0.1
    assert 2.0 < biases[0] / biases[1] < 8.0


def test_rotary_positions_correlate_scores_as_cosines() -> None:
    """Head features drawn and turned one by one: cov(S_ij, S_kl) has the factor c((j − i) − (l − k))."""
    step = Attention(heads=1, head_width=8, rotary=True, rotary_base=50.0)
    angles = np.array(step.rotary_angles)
    assert angles == pytest.approx(50.0 ** (-np.arange(4) / 4))
    modes = rotation_modes(5, angles)
    rng = np.random.default_rng(0)
    drawn = 200_000
    parts = rng.standard_normal((4, drawn, 4))  # pairs of features as complex numbers
    q, k = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    # one token everywhere: U = 1, and scores differ by their displacement alone
    scores = {m: (q.conj() * k * np.exp(1j * angles * m)).real.sum(1) / math.sqrt(8) for m in (-4, 0, 1, 3)}
    for one in scores:
        for two in scores:
            rows = [modes[:, max(-at, 0), max(at, 0)] for at in (one, two)]
            assert np.mean(scores[one] * scores[two]) == pytest.approx(float(rows[0] @ rows[1]), abs=0.02)


def test_rotary_positions_change_what_theory_says() -> None:
    """The power of the networks above: without the rotation the entropy of the same scores is another."""
    text = "input(64, [12]) > attention(heads=4, head_width=16, qk_gain=1.6, rotary={})"
    batch = _batch(Spec(text.format(True)), cosine=0.9, samples=1)
    with_, without = (
        predict(Spec(text.format(on)), batch, metrics=["attention_entropy"])["attention_entropy"].values[0, 1]
        for on in (True, False)
    )
    drawn = simulate(Spec(text.format(True)), batch, runs=64, metrics=["attention_entropy"])["attention_entropy"]
    error = drawn.values[:, 1].std(ddof=1) / 8
    assert abs(drawn.values[:, 1].mean() - with_) < 4.5 * error + 0.03 * with_
    assert abs(drawn.values[:, 1].mean() - without) > 10 * error + 0.03 * with_


def test_uniform_attention_is_a_mean() -> None:
    """Queries of no size: every token becomes the mean of all it sees."""
    spec = Spec("input(8, [4]) > attention(heads=2, qk_gain=0, causal=True)")
    batch = _batch(spec, cosine=0.0, samples=1)
    found = predict(spec, batch, metrics=["token_cosine", "attention_entropy", "gradient_log_norm"])
    means = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    gram = means @ (batch[0].T @ batch[0] / 8) @ means.T
    roots = np.sqrt(np.diag(gram))
    cosines = gram / np.outer(roots, roots)
    assert found["token_cosine"].values[0, 1] == pytest.approx((cosines.sum() - 4) / 12, rel=1e-9)
    assert found["attention_entropy"].values[0, 1] == pytest.approx(np.log([1, 2, 3, 4]).mean(), rel=1e-9)
    assert np.isfinite(found["gradient_log_norm"].values).all()


def test_tokens_of_no_length_have_an_answer() -> None:
    for norm in ("False", "True"):
        spec = Spec(f"input(8, [3]) > attention(heads=2, qk_norm={norm})")
        found = predict(spec, np.zeros((2, 8, 3)), metrics=list(SEQUENCE_METRICS))
        assert found["rms"].values[0, 1] == 0.0
        assert np.isfinite(found["token_cosine"].values).all()


def test_what_is_not_covered_says_so() -> None:
    plain = coverage(Spec("input(8, [4]) > attention(heads=2) > pool > dense(1)"))
    assert plain == {
        "theory": None,
        "kernels": "attention: its tangent kernel is not derived here",
        "simulation gram": None,
        "simulation dense": None,
        "nn.build": None,
    }
    with pytest.raises(IsometerError, match="has no positions"):
        predict(Spec("input(8) > dense > act('relu') > dense(2)"), np.ones((2, 8)), metrics=["token_cosine"])
    with pytest.raises(IsometerError, match="sample_cosine needs 2 samples"):
        predict(Spec("input(8, [4]) > attention(heads=2)"), np.ones((1, 8, 4)), metrics=["sample_cosine"])
