"""Paths, exponents and diagrams of exchangeable tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.networks import NotCovered
from isometer.theory.transformers import PHASES, PresetPlane, exponents, read_axis, token_diagram, token_path
from isometer.work import TooMuchWorkError, allow

_BLOCK = "gpt(blocks={}, width=64, heads=8, tokens=16, causal=False, {})"


def test_attention_alone_cubes_gaps() -> None:
    """1 − cosine becomes τ²(T − 1)/T² times its cube, once tokens are nearly alike: Dong et al. 2021."""
    path = token_path(Spec(_BLOCK.format(2, "hidden=0, norm='none', skip=0, qk_gain=1.2")), cosine=1 - 1e-3)
    gap = path.token_gap[:, 0]
    scores = 1.2**4 * path.rms[:, 0] ** 4
    assert gap[1] == pytest.approx(1e-9 * scores[0] * 15 / 256, rel=5e-3)
    assert gap[2] == pytest.approx(gap[1] ** 3 * scores[1] * 15 / 256, rel=1e-6)


def test_uniform_attention_has_closed_forms() -> None:
    """Scores of no size: every token becomes the mean, and the branch of a skip pulls tokens towards it."""
    path = token_path(Spec(_BLOCK.format(1, "hidden=0, norm='none', qk_gain=0, branch=0.5")), cosine=0.25)
    mean = 1.0 / 16 + 0.25 * 15 / 16
    assert path.rms[1, 0] ** 2 == pytest.approx(1.0 + 0.25 * mean, rel=1e-12)
    assert path.token_cosine[1, 0] == pytest.approx((0.25 + 0.25 * mean) / (1.0 + 0.25 * mean), rel=1e-12)
    assert path.attention_entropy[1, 0] == pytest.approx(math.log(16))
    assert path.attention_participation[1, 0] == pytest.approx(16)


def test_the_jacobian_of_uniform_attention() -> None:
    """x ↦ x + b·W(mean): E ‖∂y/∂x‖² per feature is 1 + b²/T."""
    path = token_path(Spec(_BLOCK.format(1, "hidden=0, norm='none', qk_gain=0, branch=0.5")), backward=True)
    assert path.log_jacobian is not None
    assert path.log_jacobian[:2, 0] == pytest.approx([math.log(1 + 0.25 / 16), 0.0], rel=1e-9)


def test_branches_of_one_over_root_depth_keep_tokens_apart() -> None:
    """Noci et al. 2022: with 1/√L the cosine at the end does not go to 1 as depth grows; with 1 it does."""

    def last(blocks: int, branch: str) -> float:
        path = token_path(Spec(_BLOCK.format(blocks, f"hidden=0, norm='post', branch={branch}")))
        return float(path.token_cosine[-1, 0])

    assert last(32, "power(depth=-0.5)") == pytest.approx(last(128, "power(depth=-0.5)"), abs=0.01)
    assert last(32, "power(depth=-0.5)") < 0.5
    assert last(32, "1.0") > 0.999


def test_exponents_are_slopes_of_the_maps() -> None:
    spec = Spec(_BLOCK.format(4, "norm='post', branch=0.4, qk_gain=0.8"))
    found = exponents(spec)
    assert found is not None
    assert found.token_cosine == pytest.approx(1.0, abs=1e-6)
    gaps = token_path(spec, cosine=1 - 1e-7).token_gap[:, 0]
    assert found.angle == pytest.approx(math.log(gaps[3] / gaps[2]), rel=1e-3)
    assert exponents(Spec(_BLOCK.format(4, "norm='post', branch=power(layer=-0.5)"))) is None
    with pytest.raises(IsometerError, match="repeats none"):
        exponents(Spec("input(8, [4]) > attention(heads=2)"))


def test_a_diagram_has_the_numbers_of_its_points() -> None:
    """A point that runs beside 80 others, by tables, against the same network alone, by integrals."""
    plane = PresetPlane(_BLOCK.format(6, "norm='post'"), "qk_gain", "branch")
    x, y = read_axis("qk_gain=0.2:4", 9), read_axis("branch=0.1:0.9", 9)
    found = token_diagram(plane, x.values.tolist(), y.values.tolist())
    assert found.error > 1e-3
    for j, i in ((0, 0), (4, 3), (8, 8), (2, 7)):
        alone = token_path(plane(x.values[i], y.values[j]), backward=True)
        assert alone.error < 1e-6
        assert alone.log_jacobian is not None
        gap = 1.0 - found.token_cosine[j, i]
        assert gap == pytest.approx(alone.token_gap[-1, 0], rel=found.error)
        assert found.rms[j, i] == pytest.approx(alone.rms[-1, 0], rel=found.error)
        assert found.attention_entropy[j, i] == pytest.approx(alone.attention_entropy[-1, 0], rel=found.error)
        assert found.log_jacobian[j, i] == pytest.approx(alone.log_jacobian[0, 0], abs=2 * found.error)


def test_a_diagram_over_the_length_of_a_network() -> None:
    plane = PresetPlane(_BLOCK.format(2, "norm='post', hidden=0"), "blocks", "tokens")
    found = token_diagram(plane, [1, 8], [4, 16])
    assert (np.diff(found.token_cosine, axis=1) > 0).all()
    assert found.token_cosine[1, 1] == pytest.approx(float(token_path(plane(8, 16)).token_cosine[-1, 0]), rel=1e-9)


def test_phases_have_their_names() -> None:
    plane = PresetPlane(_BLOCK.format(30, "hidden=0, norm='post'"), "qk_gain", "branch")
    found = token_diagram(plane, [0.3, 9.0], [0.01, 1.0], backward=False)
    assert [[PHASES[k] for k in row] for row in found.phase] == [
        ["open", "entropy collapse"],
        ["rank collapse", "rank collapse"],
    ]


def test_what_takes_long_is_said_before_it_does() -> None:
    """Without a norm, variances differ between points and gelu has integrals at each: refused, or announced once."""
    plane = PresetPlane(_BLOCK.format(40, "norm='none', branch=2"), "qk_gain", "mlp_gain")
    axes = [0.5, 2.0], [2.0, 3.0, 4.0]
    with allow(seconds=1.0), pytest.raises(TooMuchWorkError, match="use at most 2 points, or allow more with --time"):
        token_diagram(plane, *axes)
    said: list[str] = []
    done: list[tuple[int, int]] = []
    small = PresetPlane(_BLOCK.format(4, "norm='none'"), "qk_gain", "mlp_gain")
    with allow(announce=said.append):
        token_diagram(small, *axes, progress=lambda *given: done.append(given))
    assert said == []
    assert done == [(layer, 4) for layer in (1, 2, 3, 4)]


def test_bad_input_is_named() -> None:
    with pytest.raises(NotCovered, match="a causal mask over exchangeable tokens"):
        token_path(Spec("gpt(blocks=1, width=16, heads=2, tokens=4)"))
    spec = Spec("gpt(blocks=1, width=16, heads=2, tokens=4, causal=False)")
    with pytest.raises(IsometerError, match=r"from -0\.3333 to 1"):
        token_path(spec, cosine=-0.5)
    with pytest.raises(IsometerError, match="more alike"):
        token_path(spec, cosine=0.0, sample_cosine=0.9)
    with pytest.raises(IsometerError, match="expected one, the sequence"):
        token_path(Spec("input(8) > dense"))
    for text, message in (("qk_gain", "its range"), ("a=2:1", "low:high"), ("a=0:1:1", "from 2 to 1000")):
        with pytest.raises(IsometerError, match=message):
            read_axis(text, 5)
    with pytest.raises(IsometerError, match="unknown keyword of gpt"):
        PresetPlane("gpt(blocks=2)", "qk", "branch")
    with pytest.raises(IsometerError, match="expected a preset"):
        PresetPlane("dense > act('relu')", "a", "b")
    with pytest.raises(IsometerError, match="not a number"):
        PresetPlane("gpt(blocks=2)", "norm", "branch")
