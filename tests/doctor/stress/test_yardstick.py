"""What small generic learners make of batches: tasks they learn, faults they do not mind, what they leave alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.stress._material import Batches, Material
from isometer.doctor.stress._yardstick import Yardstick, yardstick
from isometer.doctor.stress._yardstick_views import InputReader, Standards, moved_ahead
from support.stressing import entropy

Tensor = torch.Tensor
SAMPLES, STEPS = 32, 40
Loss = Callable[[Any, Any], Tensor]


def _per_position(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def _chance(targets: Sequence[Any]) -> float:
    """Variance of values, entropy of classes."""
    if not isinstance(targets[0], Tensor):
        return math.nan
    known = torch.cat([target if target.dim() < 2 else target.flatten(0, -2) for target in targets])
    if known.is_floating_point():
        return float(known.var(0, correction=0).mean())
    return entropy(known)


def _measured(
    pairs: Sequence[tuple[Any, Any]], output: Any, loss: Loss = functional.cross_entropy, **changed: Any
) -> Yardstick:
    chance = changed.pop("chance", None) or _chance([target for _, target in pairs])
    given = {"kind": "yours", "chance": chance, "chance_of_one": chance, "samples": SAMPLES, **changed}
    return yardstick(Material(Batches(list(pairs)), loss, output=output, **given), steps=len(pairs), seed=0)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _linear(steps: int = STEPS, *, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """A linear function of ten features."""
    x = torch.randn(steps, SAMPLES, 10, generator=_generator(seed))
    weights = torch.randn(10, 1, generator=_generator(1)) / math.sqrt(10)
    return [(one, one @ weights) for one in x]


def _xor(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Whether two of six features have the same sign: no linear function says anything about it."""
    x = torch.randn(steps, SAMPLES, 6, generator=_generator())
    return [(one, (one[:, 0] * one[:, 1] > 0).long()) for one in x]


def _texture(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Stripes that lie or stand, at any phase: no pixel alone says anything about it."""
    label = torch.randint(2, (steps, SAMPLES), generator=_generator())
    phase = 2 * math.pi * torch.rand(steps, SAMPLES, 1, 1, generator=_generator(1))
    wave = torch.sin(1.5 * torch.arange(12.0)[:, None].expand(12, 12) + phase)
    x = torch.where(label[..., None, None] > 0, wave, wave.transpose(2, 3))
    x = x + 0.5 * torch.randn(x.shape, generator=_generator(2))
    return [*zip(x[:, :, None], label, strict=True)]


def _majority(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Which of three tokens is more frequent than it should be."""
    label = torch.randint(3, (steps, SAMPLES), generator=_generator())
    tokens = torch.randint(12, (steps, SAMPLES, 20), generator=_generator(1))
    marked = torch.rand(tokens.shape, generator=_generator(2)) < 0.25
    return [*zip(torch.where(marked, label[..., None], tokens), label, strict=True)]


def _chain(steps: int) -> Tensor:
    """Tokens that follow from the one before, but for one in ten."""
    after = torch.randperm(12, generator=_generator())
    paths = [torch.randint(12, (steps, SAMPLES), generator=_generator(1))]
    for place in range(16):
        other = torch.randint(12, (steps, SAMPLES), generator=_generator(10 + place))
        strays = torch.rand(other.shape, generator=_generator(30 + place)) < 0.1
        paths.append(torch.where(strays, other, after[paths[-1]]))
    return torch.stack(paths, 2)


def _markov(steps: int) -> list[tuple[Tensor, Tensor]]:
    return [(one[:, :-1], one[:, 1:]) for one in _chain(steps)]


def _cloud(steps: int) -> list[tuple[Tensor, Tensor]]:
    """How far points in no order reach."""
    x = torch.randn(steps, SAMPLES, 12, 2, generator=_generator()) * (
        0.3 + torch.rand(steps, SAMPLES, 1, 2, generator=_generator(1))
    )
    return [(one, one.amax(1) - one.amin(1)) for one in x]


@pytest.mark.parametrize(
    ("make", "steps", "output", "loss", "least"),
    [
        (_linear, 40, torch.zeros(SAMPLES, 1), functional.mse_loss, 0.85),
        (_xor, 80, torch.zeros(SAMPLES, 2), functional.cross_entropy, 0.6),
        (_texture, 40, torch.zeros(SAMPLES, 2), functional.cross_entropy, 0.8),
        (_majority, 40, torch.zeros(SAMPLES, 3), functional.cross_entropy, 0.6),
        (_markov, 40, torch.zeros(SAMPLES, 16, 12), _per_position, 0.5),
        (_cloud, 60, torch.zeros(SAMPLES, 2), functional.mse_loss, 0.6),
    ],
)
def test_what_can_be_learned_is_learned(
    make: Callable[[int], Any], steps: int, output: Tensor, loss: Loss, least: float
) -> None:
    found = _measured(make(steps), output, loss)
    assert found.progress >= least, found.learner
    assert len(found.losses) == steps


def test_no_learner_sees_the_token_that_it_is_to_predict() -> None:
    """One in ten tokens cannot be known: who does better than the entropy of that has looked ahead."""
    found = _measured(_markov(60), torch.zeros(SAMPLES, 16, 12), _per_position)
    strays = 0.1 * 11 / 12
    entropy = -(1 - strays) * math.log(1 - strays) - strays * math.log(strays / 11)
    assert found.losses[-1] > 0.7 * entropy
    free = [
        (one[:, :-1], torch.randint(12, (SAMPLES, 16), generator=_generator(k))) for k, one in enumerate(_chain(40))
    ]
    assert _measured(free, torch.zeros(SAMPLES, 16, 12), _per_position).progress < 0.05


def test_a_loss_that_shifts_by_itself_gets_causal_learners_too() -> None:
    def shifted(output: Tensor, target: Tensor) -> Tensor:
        return _per_position(output[:, :-1], target[:, 1:])

    found = _measured([(one, one) for one in _chain(40)], torch.zeros(SAMPLES, 17, 12), shifted)
    assert 0.5 < found.progress < 0.9


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda x: x * torch.tensor([1e4] + [1.0] * 9), id="outlier feature"),
        pytest.param(lambda x: x + 1e3, id="offset"),
        pytest.param(lambda x: x * 1e-6, id="tiny"),
        pytest.param(lambda x: x * 10.0 ** torch.arange(-5, 5), id="units"),
        pytest.param(lambda x: x.masked_fill(torch.arange(SAMPLES)[:, None] % 16 == 0, math.nan), id="nan"),
        pytest.param(lambda x: x.masked_fill(torch.arange(SAMPLES)[:, None] % 16 == 0, math.inf), id="inf"),
        pytest.param(lambda x: torch.cat([x, torch.full((SAMPLES, 3), 7.0)], 1), id="constant features"),
        pytest.param(lambda x: x.half(), id="half precision"),
        pytest.param(lambda x: {"a": x[:, :5], "b": (x[:, 5:],)}, id="nested"),
    ],
)
def test_inputs_of_any_units_do(spoil: Callable[[Tensor], Any]) -> None:
    found = _measured([(spoil(x), y) for x, y in _linear()], torch.zeros(SAMPLES, 1), functional.mse_loss)
    assert found.progress > 0.6


@pytest.mark.parametrize(("scale", "mean"), [(1.0, 1e3), (1e3, 3e4), (1e-4, 0.0)])
def test_targets_of_any_units_do(scale: float, mean: float) -> None:
    pairs = [(x, mean + scale * y) for x, y in _linear()]
    assert _measured(pairs, torch.zeros(SAMPLES, 1), functional.mse_loss).progress > 0.8


@pytest.mark.parametrize("factor", [1e-8, 1e4])
def test_the_scale_of_the_loss_does_not_matter(factor: float) -> None:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return factor * functional.mse_loss(output, target)

    found = _measured(_linear(), torch.zeros(SAMPLES, 1), loss, chance=factor * _chance([y for _, y in _linear()]))
    assert found.progress > 0.85


def test_nothing_is_learned_from_targets_of_other_samples() -> None:
    targets = [y[torch.randperm(SAMPLES, generator=_generator(k))] for k, (_, y) in enumerate(_linear())]
    pairs = [(x, y) for (x, _), y in zip(_linear(), targets, strict=True)]
    assert _measured(pairs, torch.zeros(SAMPLES, 1), functional.mse_loss).progress < 0.05


def test_rare_answers_start_from_their_share() -> None:
    pairs = [
        (x, (torch.rand(SAMPLES, 4, generator=_generator(k)) < 0.02).float()) for k, (x, _) in enumerate(_linear())
    ]
    share = float(torch.cat([y for _, y in pairs]).mean())
    chance = -share * math.log(share) - (1 - share) * math.log(1 - share)
    found = _measured(pairs, torch.zeros(SAMPLES, 4), functional.binary_cross_entropy_with_logits, chance=chance)
    assert found.losses[0] < 0.2
    assert found.progress < 0.1


@dataclass
class _Returned:
    hidden: Tensor
    logits: Tensor


@pytest.mark.parametrize(
    ("output", "loss"),
    [
        (
            _Returned(torch.ones(SAMPLES, 7), torch.zeros(SAMPLES, 2)),
            lambda o, y: functional.cross_entropy(o.logits, y),
        ),
        (torch.full((SAMPLES, 2), -math.log(2)), functional.nll_loss),
        (torch.zeros(SAMPLES, 2).half(), lambda o, y: functional.cross_entropy(o.float(), y)),
        (torch.zeros(SAMPLES), lambda o, y: functional.binary_cross_entropy_with_logits(o, y.float())),
        ((torch.zeros(SAMPLES, 2), torch.zeros(SAMPLES, 2)), lambda o, y: functional.cross_entropy(o[0] + o[1], y)),
    ],
)
def test_answers_take_the_shape_of_the_output(output: Any, loss: Loss) -> None:
    pairs = [(x, (y[:, 0] > 0).long()) for x, y in _linear()]
    assert _measured(pairs, output, loss).progress > 0.5


def test_classes_on_axis_1_of_positions_and_of_pixels() -> None:
    x = torch.randn(STEPS, SAMPLES, 3, 8, 8, generator=_generator())
    found = _measured([(one, one.argmax(1)) for one in x], torch.zeros(SAMPLES, 3, 8, 8))
    assert found.progress > 0.5
    found = _measured([(one[..., 0], one[..., 0].argmax(1)) for one in x], torch.zeros(SAMPLES, 3, 8))
    assert found.progress > 0.5


def test_batches_of_other_sizes_and_lengths() -> None:
    pairs = [(x[: 32 - k % 5, : 16 - k % 3], y[: 32 - k % 5, : 16 - k % 3]) for k, (x, y) in enumerate(_markov(STEPS))]
    found = _measured(pairs, torch.zeros(SAMPLES, 16, 12), _per_position, chance=math.log(12))
    assert found.progress > 0.4
    assert len(found.losses) == STEPS


def test_a_batch_is_learned_from_once() -> None:
    pairs = _linear(8)
    given = Material(Batches(pairs), functional.mse_loss, "yours", 1.0, 1.0, SAMPLES, torch.zeros(SAMPLES, 1))
    assert len(yardstick(given, steps=STEPS, seed=0).losses) == 8


def _nothing(**changed: Any) -> Yardstick:
    return _measured(_linear(6), torch.zeros(SAMPLES, 1), functional.mse_loss, **changed)


def test_where_nothing_can_be_said() -> None:
    assert not math.isnan(_nothing().progress)
    cases = [
        _nothing(kind="the model's own"),
        _nothing(kind="a random teacher"),
        _nothing(chance=math.nan),
        _nothing(chance=-math.inf),
        _measured(_linear(1), torch.zeros(SAMPLES, 1), functional.mse_loss),
        _measured([(x, None) for x, _ in _linear(6)], torch.zeros(SAMPLES, 1), lambda o, _: o.sum(), chance=1.0),
        _measured([(x, x) for x, _ in _linear(6)], torch.zeros(SAMPLES, 10), functional.mse_loss),
        _measured(_linear(6), torch.zeros(7, 1), lambda o, _: o.square().mean(), chance=1.0),
        _measured([(torch.ones(()), y) for _, y in _linear(6)], torch.zeros(SAMPLES, 1), functional.mse_loss),
        _measured(_linear(6), torch.zeros(SAMPLES, 1), lambda o, y: o.sum() / 0 if y.sum() else 1 / 0, chance=1.0),
        _measured(_linear(6), "no tensor", lambda o, y: y.sum(), chance=1.0),
    ]
    for place, found in enumerate(cases):
        assert (math.isnan(found.progress), found.learner, found.losses) == (True, "", ()), place


def test_the_same_again_and_another_seed_is_another_run() -> None:
    def run(seed: int) -> Yardstick:
        chance, output = math.log(2), torch.zeros(SAMPLES, 2)
        given = Material(Batches(_xor(12)), functional.cross_entropy, "yours", chance, chance, SAMPLES, output)
        return yardstick(given, steps=12, seed=seed)

    assert run(0) == run(0)
    assert run(0).losses != run(1).losses


def test_generators_gradients_and_data_stay_as_they_were() -> None:
    model = nn.Linear(10, 1)
    model.weight.grad = torch.ones(1, 10)
    before = model.weight.detach().clone()

    def loss(output: Tensor, target: Tensor) -> Tensor:
        target.mul_(1.0 + 0 * torch.rand(1).item())  # a loss may write to its targets, and draw numbers
        return functional.mse_loss(output, target) + 0 * model.weight.square().sum() + 0.1 * random.random()

    pairs = _linear(12)
    copies = [(x.clone(), y.clone()) for x, y in pairs]
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate(), torch.get_num_threads()  # noqa: NPY002
    with torch.no_grad():
        output = model(pairs[0][0])
    assert _measured(pairs, output, loss, chance=1.0).progress > 0
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert (random.getstate(), torch.get_num_threads()) == states[2:]
    assert torch.equal(model.weight, before)
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, torch.ones(1, 10))
    assert all(
        torch.equal(a, b) for one, other in zip(pairs, copies, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_gradients_may_be_off() -> None:
    with torch.inference_mode():
        pairs = [(x.clone(), y.clone()) for x, y in _linear()]
        found = _measured(pairs, torch.zeros(SAMPLES, 1), functional.mse_loss, chance=1.0)
    assert found.progress > 0.8


def test_places_of_an_image_are_scaled_one_by_one() -> None:
    """A column in other units disappears in the statistics; pixels that hardly ever vary stay small."""
    x = torch.randn(256, 1, 6, 6, generator=_generator()).double()
    x[..., 0] *= 1e4
    x[..., 5] *= 1e-3
    found = Standards(x)(x).std(0)[0]
    assert 0.8 < float(found[:, :5].min()) <= float(found[:, :5].max()) < 1.2
    assert float(found[:, 5].max()) < 0.05


def test_large_inputs_are_made_small() -> None:
    images = [torch.randn(4, 3, 96, 80, generator=_generator(k)) for k in range(2)]
    views = InputReader(images, []).views(images[0])
    assert views["grid"].shape == (4, 3, 16, 16)
    assert views["flat"].shape == (4, 768)
    rows = [torch.randn(4, 5000, generator=_generator(k)) for k in range(2)]
    flat = InputReader(rows, []).views(rows[0])["flat"]
    assert flat.shape == (4, 1024)
    assert 0.5 < float(flat.std()) < 2


def test_tokens_are_told_from_masks() -> None:
    tokens = torch.randint(50, (4, 9), generator=_generator())
    inputs = {"mask": torch.ones_like(tokens), "ids": tokens, "length": torch.arange(4)}
    assert torch.equal(InputReader([inputs], []).views(inputs)["tokens"], tokens)


def test_long_inputs_are_cut_into_patches() -> None:
    sounds = [torch.randn(4, 1, 4000, generator=_generator(k)) for k in range(2)]
    views = InputReader(sounds, []).views(sounds[0])
    assert views["patches"].shape == (4, 63, 63)
    assert views["flat"].shape == (4, 1024)


def test_blank_inputs_do_not_hide_that_targets_are_ahead() -> None:
    whole = torch.randint(1, 20, (16, 21), generator=_generator())
    blank = whole * (torch.rand(whole.shape, generator=_generator(1)) < 0.1)
    assert moved_ahead((blank[:, :-1], whole[:, 1:])) == [1]


def test_of_large_batches_some_samples_are_enough() -> None:
    pairs = [
        (torch.cat([x] * 10), torch.cat([y] * 10).masked_fill(torch.arange(320)[:, None] >= 128, math.nan))
        for x, y in _linear()
    ]
    found = _measured(pairs, torch.zeros(320, 1), functional.mse_loss, chance=1.0, samples=320)
    assert found.progress > 0.8


def test_an_answer_to_every_position_without_an_axis_of_its_own() -> None:
    pairs = [(x, (x % 3 == 0).float()) for x, _ in _markov(STEPS)]
    found = _measured(pairs, torch.zeros(SAMPLES, 16), functional.binary_cross_entropy_with_logits, chance=0.64)
    assert found.learner == "context of tokens"
    assert found.progress > 0.8


def test_background_that_is_alike_does_not_make_targets_inputs() -> None:
    image = torch.zeros(2, 8, 8)
    image[:, 2:4, 2:4] = 0.7
    assert moved_ahead((image, (image > 0).long())) == []
    assert moved_ahead((image, image.clone())) == [0]
