"""Chance and losses against closed forms and torch; what a teacher asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.stress._objectives import NothingToLearn, Teacher, usual_loss
from isometer.errors import IsometerError
from support.stressing import chance, drawn, entropy, wrong_sign

LABELS = torch.tensor([0, 0, 0, 1, 2, 2])
VALUES = torch.tensor([[1.0, 0.0], [3.0, 0.5], [8.0, -2.5], [2.0, 7.0]])


def _gaussian(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    mean, logarithm = output[:, :1], output[:, 1:]
    return (0.5 * (logarithm + (target - mean).square() * (-logarithm).exp())).mean()


# --- chance -----------------------------------------------------------------------------------------------------------


def test_of_classes_it_is_the_entropy_of_the_labels() -> None:
    assert chance(functional.cross_entropy, torch.zeros(6, 3), [LABELS]) == pytest.approx(entropy(LABELS), abs=1e-5)


def test_over_several_batches_it_is_the_entropy_of_all_labels() -> None:
    first, second = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 2])
    found = chance(functional.cross_entropy, drawn(4, 3), [first, second])
    assert found == pytest.approx(entropy(torch.cat([first, second])), abs=1e-5)


def test_ignored_labels_do_not_count() -> None:
    ignored = torch.cat([LABELS, torch.full((5,), -100)])
    found = chance(functional.cross_entropy, torch.zeros(11, 3), [ignored])
    assert found == pytest.approx(entropy(LABELS), abs=1e-5)


def test_of_values_it_is_their_variance_over_the_samples() -> None:
    found = chance(functional.mse_loss, drawn(4, 2), [VALUES])
    assert found == pytest.approx(VALUES.var(0, correction=0).mean().item(), rel=1e-4)


def test_of_absolute_errors_it_is_the_distance_from_the_median() -> None:
    values = torch.tensor([[0.0], [1.0], [5.0], [6.0], [5.0]])
    assert chance(functional.l1_loss, torch.zeros(5, 1), [values]) == pytest.approx(2.0, abs=1e-3)


def test_of_logits_for_two_classes_it_is_the_binary_entropy() -> None:
    target = torch.tensor([[1.0], [1.0], [1.0], [0.0]])
    found = chance(functional.binary_cross_entropy_with_logits, torch.zeros(4, 1), [target])
    assert found == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), abs=1e-5)


@pytest.mark.parametrize(("shape", "labels"), [((4, 5, 3), (4, 5)), ((4, 3, 6, 2), (4, 6, 2))], ids=["text", "pixels"])
def test_of_labels_at_positions_it_is_at_most_the_entropy(shape: tuple[int, ...], labels: tuple[int, ...]) -> None:
    target = torch.randint(3, labels, generator=torch.Generator().manual_seed(0))
    found = chance(usual_loss, torch.zeros(shape), [target])
    assert found == pytest.approx(entropy(target), abs=1e-5)


def test_of_a_density_it_may_be_negative() -> None:
    values = torch.tensor([[0.01], [0.02], [0.03], [0.0]])
    found = chance(_gaussian, torch.zeros(4, 2), [values])
    assert found == pytest.approx(0.5 * math.log(values.var(correction=0).item()) + 0.5, abs=1e-3)


def test_outputs_and_targets_may_be_dictionaries() -> None:
    def loss(output: dict[str, torch.Tensor], target: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.mse_loss(output["value"], target["value"]) + functional.cross_entropy(
            output["class"], target["class"]
        )

    output = {"value": torch.zeros(4, 2), "class": torch.zeros(4, 3), "none": None}
    labels = torch.tensor([0, 0, 0, 1])
    found = chance(loss, output, [{"value": VALUES, "class": labels}])
    assert found == pytest.approx(VALUES.var(0, correction=0).mean().item() + entropy(labels), rel=1e-4)


def test_log_probabilities_stay_log_probabilities() -> None:
    """An unrestricted constant would make the likelihood as large as it likes."""
    output = drawn(6, 3).log_softmax(1)
    assert chance(functional.nll_loss, output, [LABELS]) == pytest.approx(entropy(LABELS), abs=1e-5)
    pixels = drawn(2, 3, 4, 4).log_softmax(1)
    target = torch.randint(3, (2, 4, 4), generator=torch.Generator().manual_seed(0))
    assert chance(functional.nll_loss, pixels, [target]) == pytest.approx(entropy(target), abs=1e-5)


@pytest.mark.parametrize(
    "loss",
    [wrong_sign, functional.nll_loss, lambda y, t: -functional.multi_margin_loss(y, t)],
    ids=["cross-entropy", "likelihood of no probabilities", "margin"],
)
def test_a_loss_that_falls_without_end_has_none(loss: Callable[..., torch.Tensor]) -> None:
    assert chance(loss, drawn(6, 3), [LABELS]) == -math.inf


@pytest.mark.parametrize("error", [functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss])
@pytest.mark.parametrize("targets", [VALUES, VALUES - VALUES.mean(0)], ids=["as they are", "centred"])
def test_a_negated_error_has_none(error: Callable[..., torch.Tensor], targets: torch.Tensor) -> None:
    assert chance(lambda y, t: -error(y, t), torch.zeros(4, 2), [targets]) == -math.inf


@pytest.mark.parametrize(
    "labels", [torch.full((4,), -100), torch.tensor([0, 1, 2, 7])], ids=["all ignored", "too many"]
)
def test_where_no_constant_has_a_loss_it_is_unknown(labels: torch.Tensor) -> None:
    assert math.isnan(chance(functional.cross_entropy, torch.zeros(4, 3), [labels]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_of_outputs_in_other_precisions(dtype: torch.dtype) -> None:
    found = chance(functional.cross_entropy, torch.zeros(6, 3, dtype=dtype), [LABELS])
    assert found == pytest.approx(entropy(LABELS), abs=0.01)


def test_a_parameter_of_the_loss_gets_no_gradient() -> None:
    weight = nn.Parameter(torch.ones(()))
    chance(lambda y, t: functional.mse_loss(y, t) + weight.square(), torch.zeros(4, 2), [VALUES])
    assert weight.grad is None


# --- losses by the kind of target -------------------------------------------------------------------------------------


def test_classes_on_axis_one() -> None:
    output, target = drawn(6, 3), LABELS
    assert usual_loss(output, target) == functional.cross_entropy(output, target)
    pixels, map_ = drawn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    assert usual_loss(pixels, map_) == functional.cross_entropy(pixels, map_)


def test_classes_on_the_last_axis() -> None:
    output, target = drawn(4, 5, 3), torch.randint(3, (4, 5))
    assert usual_loss(output, target).item() == pytest.approx(
        functional.cross_entropy(output.transpose(1, 2), target).item(), rel=1e-6
    )
    assert usual_loss(SimpleNamespace(logits=output), target) == usual_loss(output, target)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_class_numbers_of_other_types(dtype: torch.dtype) -> None:
    assert usual_loss(drawn(6, 3), LABELS.to(dtype)) == functional.cross_entropy(drawn(6, 3), LABELS)


@pytest.mark.parametrize(("found", "target"), [((4, 2), (4, 2)), ((4, 1), (4,)), ((4,), (4, 1)), ((4, 3, 2), (4, 6))])
def test_values(found: tuple[int, ...], target: tuple[int, ...]) -> None:
    output, values = drawn(*found), drawn(*target, seed=1)
    expected = (output.flatten() - values.flatten()).square().mean()
    assert usual_loss((output, "more"), values).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.zeros(4, 3, 2), torch.zeros(4, 2, 3)),  # the axes of a picture in another order
        (torch.zeros(4, 1), torch.tensor([0, 1, 1, 0])),  # one class
        (torch.zeros(4, 3), torch.tensor([True] * 4)),
        (torch.zeros(4, 3), torch.zeros(5, 3)),
        (torch.zeros(4, 3), [0, 1, 2, 0]),
        ("text", torch.zeros(3)),
    ],
)
def test_what_fits_no_loss_is_refused_in_one_line(output: object, target: object) -> None:
    with pytest.raises(IsometerError, match="pass loss=") as caught:
        usual_loss(output, target)
    assert "\n" not in str(caught.value)


# --- the teacher ------------------------------------------------------------------------------------------------------

INPUTS = {
    "features": (drawn(6, 5), drawn(6, 3)),
    "pictures": (drawn(4, 3, 6, 6), drawn(4, 10)),
    "tokens": (torch.arange(20).reshape(4, 5), drawn(4, 3)),
    "tokens at positions": (torch.arange(20).reshape(4, 5), drawn(4, 5, 3)),
    "tokens in a row": (torch.arange(20).reshape(4, 5), drawn(20, 3)),
    "one token each": (torch.arange(6), drawn(6, 3)),
    "several tokens at positions": (torch.arange(40).reshape(4, 5, 2), drawn(4, 5, 3)),
    "a series at positions": (drawn(4, 5), drawn(4, 5, 3)),
    "one number each": (drawn(6), drawn(6, 3)),
    "one number for each": (drawn(6, 5), drawn(6)),
    "a dictionary": ({"mask": torch.ones(6, 5, dtype=torch.bool), "x": drawn(6, 5)}, {"y": drawn(6, 3)}),
    "complex": (torch.complex(drawn(6, 5), drawn(6, 5, seed=1)), drawn(6, 3)),
    "sparse": (drawn(6, 5).to_sparse(), drawn(6, 3)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_targets_have_the_shape_of_the_output_and_unit_variance(name: str) -> None:
    inputs, output = INPUTS[name]
    teacher = Teacher(inputs, output, seed=3)
    target = teacher(inputs)
    first = output["y"] if isinstance(output, dict) else output
    assert target.shape == (first.shape if first.dim() > 1 else (*first.shape, 1))
    assert target.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert target.var(correction=0).item() == pytest.approx(1.0, rel=1e-4)
    rest = (first - target.reshape(first.shape)).square().mean()
    assert teacher.loss(output, target).item() == pytest.approx(rest.item(), rel=1e-4)
    assert torch.equal(Teacher(inputs, output, seed=3)(inputs), target)
    assert not torch.equal(Teacher(inputs, output, seed=4)(inputs), target)


def test_it_is_an_affine_function_of_each_sample() -> None:
    x = drawn(6, 5)
    teacher = Teacher(x, torch.zeros(6, 3), seed=0)
    design = torch.cat([drawn(40, 5, seed=1), torch.ones(40, 1)], 1)
    fitted = torch.linalg.lstsq(design, teacher(design[:, :5])).solution
    assert torch.allclose(torch.cat([x, torch.ones(6, 1)], 1) @ fitted, teacher(x), atol=1e-4)


def test_a_position_depends_on_its_own_token_only() -> None:
    tokens = torch.arange(20).reshape(4, 5)
    teacher = Teacher(tokens, torch.zeros(4, 5, 3), seed=0)
    other = tokens.clone()
    other[:, 2] = 77
    changed = (teacher(tokens) != teacher(other)).any(-1)
    assert changed[:, 2].all()
    assert not changed[:, [0, 1, 3, 4]].any()


def test_of_many_outputs_it_asks_for_sixty_four() -> None:
    x = drawn(6, 5)
    teacher = Teacher(x, torch.zeros(6, 9, 9), seed=0)
    assert teacher(x).shape == (6, 64)
    answers = torch.cat([teacher(x), torch.full((6, 17), 1e6)], 1).reshape(6, 9, 9)
    assert teacher.loss(answers, teacher(x)) == 0


def test_it_does_not_depend_on_the_default_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn(6, 5)
    before = Teacher(x, torch.zeros(6, 3), seed=0)(x)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(Teacher(x, torch.zeros(6, 3), seed=0)(x), before)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("inputs", "output"),
    [(drawn(6, 5), torch.zeros(())), (drawn(6, 5), torch.zeros(7, 3)), ("text", torch.zeros(6, 3))],
    ids=["a number", "other samples", "no tensor"],
)
def test_where_there_is_no_place_for_targets_there_is_nothing_to_learn(inputs: object, output: object) -> None:
    with pytest.raises(NothingToLearn, match="pass target="):
        Teacher(inputs, output, seed=0)
