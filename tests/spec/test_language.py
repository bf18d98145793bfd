"""The network language: reading, printing, normal form, chains, errors."""

from __future__ import annotations

import math

import pytest

from isometer.errors import IsometerError
from isometer.spec import (
    RECURRENCES,
    Act,
    Bias,
    Chain,
    Composition,
    Convolution,
    Dense,
    Join,
    Norm,
    Pool,
    PowerLaw,
    Repeat,
    Residual,
    Scaling,
    Shape,
    Spec,
    SpecError,
    recurrence,
)
from isometer.spec._presets import PRESETS

NETWORKS = (
    "input(64) > dense",
    "input(8) > repeat(dense(16) > act('relu'), 3) > dense(1)",
    "input(8) > repeat(residual(norm('layer') > dense(32) > act('gelu') > dense(8), 0.3), 24)",
    "input(8) > repeat(residual(act('tanh') > dense, power(layer=-0.5), skip=0.5) > norm('rms', eps=1e-05), 4)",
    "input(8) > repeat(residual(dense, [0.1, 0.2, 0.3]) > act('tanh', power(2, layer=-0.4, depth=0.1)), 3) > dense(2)",
    "input(3, [8, 8]) > conv([3, 3], 16) > act('relu') > pool('mean', 2) > conv(3, dilation=2) > pool > dense(9)",
    "input(3, 16) > conv(3, 8, padding='zeros', stride=2) > pool('max', 2) > flatten > dense(4)",
    "input(8) > product(dense(16), dense(16) > act('sigmoid')) > dense(8)",
    "input(8) > sum(same, dense > act('relu')) > concat(dense(3), dense(5))",
    "input(8, 4) > attention(2, qk_gain=0.5, causal=True) > dropout(0.1) > act('gelu')",
    "input(8) > dense(gain=0.1, weights='orthogonal') > bias(0.1) > norm('group:4') > scale('1/sqrt(width)')",
    "input(8) > norm(recenter=False, divisor='std', eps=0.1) > dense > norm('batch', scale=2, shift=-1)",
)


@pytest.mark.parametrize("text", NETWORKS)
def test_what_is_printed_is_read_as_the_same_network(text: str) -> None:
    spec = Spec(text)
    assert Spec(str(spec)) == spec
    assert str(Spec(str(spec))) == str(spec)
    assert eval(repr(spec), {"Spec": Spec}) == spec
    assert Spec.from_json(spec.to_json()) == spec
    assert hash(Spec(str(spec))) == hash(spec)


@pytest.mark.parametrize("name", sorted(RECURRENCES))
def test_every_recurrence_of_the_papers_is_one_value_however_it_is_spelled(name: str) -> None:
    chain = recurrence(name, width=6, depth=5, **({"residual": 0.3} if "002" in name else {}))
    again = Spec(str(chain))
    assert isinstance(again, Chain)
    assert again == chain
    assert again.operations == chain.operations
    unrolled = Spec(list(Composition(chain.composition, chain.shape).normal_form), width=6)
    assert unrolled == chain


SAME = (
    ("dense > act('relu') > dense > act('relu')", "repeat(dense > act('relu'), 2)"),
    ("dense > repeat(act('relu') > dense, 2)", "repeat(dense > act('relu'), 2) > dense"),
    ("repeat(repeat(dense, 2) > act('tanh'), 2)", "dense > dense > act('tanh') > dense > dense > act('tanh')"),
    ("repeat(dense(4, gain=power(layer=-1)) > act('relu'), 2)", "repeat(dense(gain=[1, 0.5]) > act('relu'), 2)"),
    ("residual(dense > act('relu'), inf) > dense", "dense > act('relu') > dense"),
    ("dense > act('identity') > scale(1) > bias(0) > dense", "dense > dense(4)"),
    ("scale(2) > scale(3) > dense > dense > act('relu')", "scale(6) > dense > dense > act('relu')"),
    ("dense(bias=0.5) > act('ReLU') > dense", "dense > bias(0.5) > act('relu') > dense"),
    ("residual(act('relu') > dense, 0) > dense", "dense"),
    ("repeat(sum(dense, repeat(dense, 2)), 3)", "repeat(sum(dense, dense > dense), 3)"),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equivalent_spellings_have_one_normal_form(one: str, other: str) -> None:
    first, second = Spec(one, width=4), Spec(other, width=4)
    assert first.normal_form == second.normal_form
    assert first == second
    assert hash(first) == hash(second)
    assert type(first) is type(second)


def test_different_networks_differ() -> None:
    texts = [
        *NETWORKS,
        "input(4) > dense",
        "input(4) > dense > dense",
        "input(4) > dense(gain=2)",
        "input(4, 3) > dense",
    ]
    specs = [Spec(text) for text in texts]
    assert len(set(specs)) == len(specs)


def test_one_layer_repeated_is_a_chain_with_its_fields() -> None:
    spec = Spec("input(3) > repeat(residual(act('tanh') > dense(3, gain=2) > bias(0.1), 0.5) > norm('rms'), 7)")
    assert isinstance(spec, Chain)
    expected = Chain(
        width=3, depth=7, activation="tanh", gain=2.0, bias_variance=0.1, residual=0.5, norm=Norm.named("rms"),
        order=("activation", "weights", "residual", "norm"),
    )  # fmt: skip
    assert spec == expected
    assert (spec.gain, spec.residual, spec.order) == (expected.gain, expected.residual, expected.order)


def test_layers_of_different_widths_are_a_chain() -> None:
    spec = Spec("input(3) > dense(8) > act('relu') > dense(4) > act('relu')")
    assert isinstance(spec, Chain)
    assert (spec.width, spec.fan_in) == ((8, 4), (3, 8))
    assert spec == Spec(width=(8, 4), input_width=3)


def test_layers_are_turns_of_a_repeat_and_weights_outside() -> None:
    spec = Spec("input(3) > norm('rms') > dense(8) > act('relu') > repeat(residual(dense > act('relu')), 3) > dense(1)")
    assert isinstance(spec, Composition)
    assert [[type(step).__name__ for step in steps] for steps, _ in spec.executed_layers()] == [
        ["Norm", "Dense", "Act"],
        ["Residual"],
        ["Residual"],
        ["Residual"],
        ["Dense"],
    ]
    assert [shape.width for _, shape in spec.executed_layers()] == [8, 8, 8, 8, 1]
    assert spec.depth == 5


def test_shapes_follow_convolutions_and_pools() -> None:
    text = "input(3, [9, 8]) > conv(3, 5, stride=2) > conv(3, padding='valid') > pool('max', 2) > flatten > dense(2)"
    shapes = [shape for _, shape in Spec(text).executed_layers()]
    # 9 × 8 in steps of 2 is 5 × 4; without a border 3 × 2, in windows of two 1 × 1
    assert shapes[0] == Shape(5, (5, 4))
    assert shapes[1] == Shape(5)
    assert shapes[2] == Shape(2)


def test_schedules_are_numbers_of_their_own_repeat() -> None:
    text = "repeat(act('tanh', power(layer=-1)) > repeat(dense(gain=power(layer=1)), 2), 3)"
    steps = [step for inner, _ in Spec(text, width=4).executed_layers() for step in inner]
    assert [step.gain for step in steps if isinstance(step, Act)] == [1.0, 1 / 2, 1 / 3]
    assert [step.gain for step in steps if isinstance(step, Dense)] == [1.0, 2.0] * 3


def test_steps_in_python_and_as_text_are_the_same() -> None:
    steps = [
        Dense(8),
        Bias(0.1),
        Repeat((Residual((Norm.named("layer"), Act("gelu"), Dense()), scale=PowerLaw(depth=-0.5)),), 4),  # type: ignore[arg-type]
        Scaling(0.5),
        Join(((Dense(2),), (Dense(2), Act("sigmoid"))), by="product"),
    ]
    text = (
        "dense(8, bias=0.1) > repeat(residual(norm('layer') > act('gelu') > dense, power(depth=-1/2)), 2*2)"
        " > scale(1/2) > product(dense(2), dense(2) > act('sigmoid'))"
    )
    assert Spec(steps, width=3) == Spec(text, width=3)
    assert Spec([Convolution((3,), 4), Pool()], width=2, positions=(8,)).shape == Shape(2, (8,))


def test_numbers_may_be_calculated() -> None:
    spec = Spec("repeat(residual(dense > act('relu') > dense, 1/sqrt(16)), 4**2)", width=4)
    body = spec.composition[0]
    assert isinstance(body, Repeat)
    assert body.times == 16
    assert body.body[0].scale == 0.25  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_have_defaults_and_keywords(name: str) -> None:
    given = "id='002/eq-5', depth=3" if name == "paper" else "depth=3" if name == "chain" else "blocks=3"
    spec = Spec(f"{name}({given})")
    assert any(isinstance(step, Repeat) and step.times == 3 for step in spec.composition)
    assert Spec(str(spec)) == spec
    if name != "paper":
        assert Spec(name) == Spec(f"{name}()")


BAD = (
    ("", "cannot be read"),
    ("dense >", "cannot be read"),
    ("dense < dense", "joined by another operator"),
    ("dense + dense", "is not a step"),
    ("densse", "did you mean 'dense'"),
    ("dense(widht=3)", "did you mean 'width'"),
    ("dense(3, 4)", "values without a name"),
    ("dense(3, width=4)", "twice"),
    ("dense(0)", "width is 0"),
    ("dense('a')", "width is 'a'"),
    ("dense(10**400)", "has no value"),
    ("dense(2**0.5)", "width is 1.41"),
    ("repeat(dense)", "no times"),
    ("repeat(dense, 0)", "times is 0"),
    ("repeat(dense, 10**30)", "times is"),
    ("repeat(input(3), 2)", "inside a step"),
    ("dense > input(3)", "input comes after a step"),
    ("input() > dense", "no width"),
    ("input(4, [2, 2, 2]) > dense", "axes of positions"),
    ("act('nope')", "nope"),
    ("act(gain=2)", "no activation"),
    ("norm('nope')", "nope"),
    ("norm('none')", "the norm is"),
    ("norm('layer', epsilon=1)", "epsilon"),
    ("residual(dense(8), 0.5)", "equal shapes"),
    ("sum(dense)", "at least 2"),
    ("sum(dense(3), dense(4))", "expected the same"),
    ("conv(3)", "no positions"),
    ("pool", "no positions"),
    ("attention", "no sequence"),
    ("dropout(1)", "probability below 1"),
    ("bias(-1)", "bias is -1"),
    ("repeat(dense(gain=[1, 2]) > act('tanh'), 3) > dense", "one per repetition"),
    ("__import__('os')", "unknown step"),
    ("dense(*[3])", "star"),
    ("dense(**{})", "star"),
    ("dense(lambda: 3)", "is not a value"),
    ("dense.width", "is not a step"),
    ("(" * 100 + "dense" + ")" * 100, "inside each other"),
    ("preln_mlp(3)", "without a name"),
    ("preln_mlp(colour=3)", "cannot be made"),
)


@pytest.mark.parametrize(("text", "said"), BAD)
def test_bad_networks_get_one_line(text: str, said: str) -> None:
    with pytest.raises(IsometerError) as caught:
        Spec(text, width=4)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 500


def test_a_spec_takes_one_description() -> None:
    with pytest.raises(SpecError, match="depth"):
        Spec("dense > act('relu')", depth=3)  # type: ignore[call-overload]
    with pytest.raises(SpecError, match="expected text, steps or a Spec"):
        Spec(object())  # type: ignore[call-overload]
    with pytest.raises(SpecError, match="one of them"):
        Spec("input(3) > dense", width=4)
    with pytest.raises(SpecError, match="one of them"):
        Spec.from_json('{"network": "dense", "depth": 3}')
    with pytest.raises(SpecError, match="not one layer repeated"):
        Chain.from_json('{"network": "dense > act(\'relu\') > dense"}')


def test_a_deep_network_is_compared_without_unrolling_it() -> None:
    one, other = (Spec(f"repeat(dense > dense > act('tanh'), {times})", width=4) for times in (10**6, 10**6 + 1))
    assert one != other
    assert one == Spec("repeat(dense > dense > act('tanh') > scale(1), 1000000)", width=4)


def test_an_infinite_residual_leaves_the_branch() -> None:
    step = Residual((Dense(),), math.inf)
    assert Spec([step], width=3) == Spec("dense", width=3)
