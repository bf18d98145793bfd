"""Which batches are read, what they are trained to, and what reading them leaves alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from isometer.doctor.probe._subject import Subject, examined
from isometer.doctor.stress import _material
from isometer.doctor.stress._material import Batches, Material, is_stream, material
from isometer.errors import IsometerError
from support.stressing import classes, drawn, entropy, mlp

X = torch.ones(2, 3)


def _material_of(model: nn.Module, batches: Any, loss: Any = None) -> Material:
    read = Batches(batches)
    return material(Subject(model), read, loss, samples=len(read[0][0]), mode="train", seed=0)


@pytest.mark.parametrize("batch", [X, (X, X), {"x": X}, [X, X], "text", 3, [], [(X, X), X], [(1, 2)]])
def test_one_batch_is_no_stream(batch: Any) -> None:
    assert not is_stream(batch)


@pytest.mark.parametrize(
    "batch", [[(X, X)], [[X, 1], (X, 2)], iter([X]), DataLoader(TensorDataset(X)), [({"x": X}, 1)]]
)
def test_many_batches_are_a_stream(batch: Any) -> None:
    assert is_stream(batch)


def test_batches_are_read_when_they_are_needed() -> None:
    given: list[int] = []

    def endless() -> Iterator[torch.Tensor]:
        while True:
            given.append(len(given))
            yield torch.tensor([len(given)])

    batches = Batches(endless())
    assert len(given) == 1
    assert batches.read(4) == 4
    assert batches.read(2) == 4
    assert len(given) == 4
    assert [batches[step][0].item() for step in range(6)] == [1, 2, 3, 4, 1, 2]


def test_no_more_batches_are_kept_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_material, "MEMORY", 3 * X.numel() * 4)
    batches = Batches(iter([(X, None)] * 20))
    assert batches.read(20) == 4
    assert batches.read(20) == 4


@pytest.mark.parametrize(("stream", "words"), [([], "no batches"), ([(X, X, X)], "3 parts"), ([5], "a int")])
def test_what_gives_no_pairs_is_refused_in_one_line(stream: Any, words: str) -> None:
    with pytest.raises(IsometerError, match=words) as caught:
        Batches(iter(stream))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("replacement", [False, True])
def test_reading_leaves_a_loader_s_generators_as_they_were(replacement: bool) -> None:
    data = TensorDataset(torch.arange(100))

    def loader() -> DataLoader[Any]:
        mine = torch.Generator().manual_seed(2)
        sampler = RandomSampler(data, replacement=replacement, generator=torch.Generator().manual_seed(1))
        return DataLoader(data, batch_size=8, sampler=sampler, generator=mine)

    used = loader()
    states = [used.generator.get_state(), used.sampler.generator.get_state()]  # type: ignore[attr-defined]
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    batches = Batches(used)
    batches.read(3)
    batches.read(10)
    assert torch.equal(used.generator.get_state(), states[0])
    assert torch.equal(used.sampler.generator.get_state(), states[1])  # type: ignore[attr-defined]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (str(np.random.get_state()), random.getstate()) == before[1:]  # noqa: NPY002
    # Reading in parts gives the same as reading at once.
    assert all(torch.equal(batches[step][0], item[0]) for step, item in zip(range(10), loader(), strict=False))


def test_an_interrupted_loader_s_generator_is_as_it_was() -> None:
    generator = torch.Generator().manual_seed(2)

    class Interrupting(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            if torch.rand((), generator=generator) < 2 and index == 11:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    before = generator.get_state()
    with pytest.raises(KeyboardInterrupt):
        Batches(DataLoader(Interrupting(torch.arange(20)), batch_size=4, shuffle=True, generator=generator)).read(9)
    assert torch.equal(generator.get_state(), before)


def test_targets_decide_what_is_learned() -> None:
    x, y = classes(1)[0]
    yours = _material_of(mlp(), [(x, y)])
    assert (yours.kind, yours.fresh) == ("yours", False)
    assert yours.chance == pytest.approx(entropy(y), abs=1e-5)
    assert yours.loss_of(mlp(), yours.batch(0)) == functional.cross_entropy(mlp()(x), y)
    taught = _material_of(mlp(), [x, drawn(16, 8, seed=7)])
    assert (taught.kind, taught.fresh) == ("a random teacher", True)
    assert taught.batch(0)[1].shape == (16, 3)
    alone = _material_of(mlp(), [x], lambda output: output.square().mean())
    assert alone.kind == "yours"
    assert alone.loss_of(mlp(), alone.batch(0)).item() == pytest.approx(mlp()(x).square().mean().item())


def test_chance_is_of_all_batches() -> None:
    pairs = classes(3)
    assert _material_of(mlp(), pairs).chance == pytest.approx(entropy(torch.cat([y for _, y in pairs])), abs=1e-4)


def test_a_last_batch_of_fewer_samples_is_no_trouble() -> None:
    (x, y), (_, z) = classes(2)
    found = _material_of(mlp(), [(x, y), (x[:3], z[:3])])
    assert found.chance == pytest.approx(entropy(y), abs=1e-5)


def test_a_model_and_a_loss_may_write_to_what_they_are_given() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = self.layer(x.clone())
            x.zero_()
            return result

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        target[target == 0] = 1
        return functional.cross_entropy(output, target)

    pairs = classes(2)
    copies = [(x.clone(), y.clone()) for x, y in pairs]
    found = _material_of(Writes(), pairs, loss)
    for _ in range(2):
        found.loss_of(Writes(), found.batch(1))
    assert all(
        torch.equal(a, b) for one, other in zip(pairs, copies, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_what_a_loss_holds_is_put_back() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            torch.rand(1)
            return functional.cross_entropy(output + self.weight, target)

    loss, before = Counting(), torch.get_rng_state()
    with examined(mlp(), loss) as subject:
        material(subject, Batches(classes(2)), loss, samples=16, mode="train", seed=0)
        assert (loss.calls.item(), loss.weight.grad) == (0, None)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_chance_is_the_same_where_gradients_are_off(off: Any) -> None:
    expected = _material_of(mlp(), classes(2)).chance
    with off():
        assert _material_of(mlp(), classes(2)).chance == expected
