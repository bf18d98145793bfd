"""Numbers of transformers against closed forms, brute force, and networks that are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from isometer import IsometerError, Spec, solve
from isometer.solvers._token_check import token_checked
from isometer.spec import with_depth
from isometer.theory.attention import row_moments
from isometer.theory.transformers import function_growth, token_path
from support.command import as_json, error, printed

_BASE = "width=96, heads=12, tokens=10, causal=False"


def _spec(options: str) -> Spec:
    return Spec(f"gpt({_BASE}, {options})")


def test_at_the_critical_skip_the_angle_exponent_is_zero() -> None:
    answer = solve("skip", _spec("norm='post', activation='tanh', mlp_gain=3"), check=True, runs=12)
    assert answer.value is not None
    assert answer.error is not None
    assert answer.error < 1e-6
    for factor, sign in ((0.9, -1), (1.1, 1)):
        spec = _spec(f"norm='post', activation='tanh', mlp_gain=3, skip={factor * answer.value}")
        path = token_path(spec, cosine=1 - 1e-8)
        assert math.copysign(1, path.token_gap[1, 0] / path.token_gap[0, 0] - 1) == sign
    critical = token_path(with_depth(Spec(answer.network), 1), cosine=1 - 1e-8)
    assert critical.token_gap[1, 0] == pytest.approx(1e-8, rel=1e-5)
    assert answer.check is not None
    assert answer.check.agrees
    assert answer.check.slack < 0.15


def test_a_linear_network_has_its_critical_skip_in_closed_form() -> None:
    """Attention keeps no gap: s²/(s² + 1) behind it; an MLP of x ↦ 2x, skip beside it, changes no cosine."""
    answer = solve("skip", _spec("norm='post', activation='identity'"))
    assert answer.value is None
    assert "tokens merge at every one" in answer.conclusion
    for skip, exponent in answer.rows:
        assert exponent == pytest.approx(math.log(skip**2 / (skip**2 + 1)), abs=1e-5)


def test_entropy_collapses_where_one_row_says() -> None:
    """Norms keep tokens orthogonal in the first block: the entropy there is that of scores of size qk_gain²."""
    answer = solve("qk_gain", _spec("blocks=1, hidden=0"), entropy=0.2, check=True, runs=12)
    assert answer.value is not None
    assert row_moments(answer.value**2, 10).entropy == pytest.approx(0.2 * math.log(10), abs=1e-6)
    assert answer.check is not None
    assert answer.check.agrees


def test_the_depth_of_a_cosine_is_the_least() -> None:
    answer = solve("depth", _spec("norm='post'"), token_cosine=0.99, check=True, runs=12)
    assert answer.value is not None
    cosines = token_path(_spec(f"norm='post', blocks={int(answer.value)}")).token_cosine[:, 0]
    assert cosines[-1] >= 0.99 > cosines[-2]
    assert answer.check is not None
    assert answer.check.agrees
    weak = solve("depth", _spec("norm='post', branch=power(depth=-0.5)"), token_cosine=0.99, most=50)
    assert weak.value == math.inf


def test_updates_are_bounded_by_weak_branches() -> None:
    answer = solve("branch", _spec("blocks=6, norm='post'"), update=100.0, check=True, runs=12)
    assert function_growth(Spec(answer.network)).sgd == pytest.approx(100.0, rel=1e-5)
    assert answer.check is not None
    assert answer.check.agrees


def test_deepnorm_keeps_the_update_as_depth_grows() -> None:
    answer = solve("deepnorm", _spec("blocks=6, norm='post'"), check=True, runs=12)
    assert answer.solutions == pytest.approx((12**0.25, 48**-0.25))
    (_, _, _, deep, post), (_, _, _, deeper, deeper_post) = answer.rows
    assert deeper == pytest.approx(deep, rel=0.15)
    assert deeper_post > 3 * post
    written = token_path(_spec("blocks=6, norm='deep'"))
    assert token_path(Spec(answer.network)).token_gap == pytest.approx(written.token_gap, rel=1e-9)
    assert answer.check is not None
    assert answer.check.agrees


def test_a_wrong_answer_does_not_pass_the_check() -> None:
    """The power of the checks: a growth of twice the size, and an entropy of gains that are 40 % smaller."""
    answer = solve("branch", _spec("blocks=2, norm='post'"), update=100.0)
    check = token_checked(answer, "growth", runs=12).check
    assert check is not None
    assert not replace(check, predicted=check.predicted + math.log(2.0)).agrees
    gain = solve("qk_gain", _spec("blocks=1, hidden=0"))
    entropy = token_checked(gain, "entropy", runs=12).check
    assert entropy is not None
    assert gain.value is not None
    other = row_moments((0.6 * gain.value) ** 2, 10).entropy
    assert not replace(entropy, predicted=other).agrees


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("skip", "gpt(blocks=2, width=16, heads=2, tokens=4)"), {}, "causal=False"),
        (("skip", "input(8, [4]) > attention(2)"), {}, "repeats none"),
        (("branch", "gpt(width=16, heads=2, tokens=4, causal=False, branch=power(depth=-1))"), {}, "equal ones"),
        (("deepnorm", "gpt(width=16, heads=2, tokens=4, causal=False)"), {}, "norm='post'"),
        (("qk_gain", "gpt(width=16, heads=2, tokens=4, causal=False)"), {"entropy": 2.0}, "a share"),
        (("skip", "gpt(width=16, heads=2, tokens=4, causal=False)"), {"entropy": 0.1}, "expected update"),
        (("gain", "gpt(width=16, heads=2, tokens=4, causal=False)"), {"update": 0.1}, "apply to transformers"),
        (("depth", "gpt(width=16, heads=2, tokens=4, causal=False)"), {"token_cosine": 1.0}, "between"),
        (("branch", "gpt(width=16, heads=2, tokens=4, causal=False)"), {"update": -1.0}, "positive"),
    ],
)
def test_bad_questions_are_named(arguments: tuple[str, str], options: dict[str, float], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        solve(arguments[0], Spec(arguments[1]), **options)  # type: ignore[arg-type]


def test_the_command_solves_for_transformers() -> None:
    network = "gpt(blocks=2, width=32, heads=4, tokens=6, norm='post')"
    found = as_json("solve", "deepnorm", "--network", network)
    assert found["solutions"] == pytest.approx([4**0.25, 16**-0.25])
    assert "blocks" in printed("solve", "depth", "--token-cosine", "0.9", "--network", network)
    assert "apply to transformers" in error("solve", "gain", "--update", "3")
    assert "expected --network" in error("solve", "qk-gain")
