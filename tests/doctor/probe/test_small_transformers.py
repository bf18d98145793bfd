"""Architectures of `transformers`, built small: each is probed and diagnosed in training mode and stays as it was.

`tools/check_probing.py --suites transformers` runs all of them.
"""

from __future__ import annotations

import pytest
import torch

from support.probing.harness import examine
from support.probing.suites import patient
from support.small_transformers import LARGEST, build, buildable, search

# A decoder with a cache, an encoder and a decoder, experts, and images with batch norms.
SLICE = ("gpt2", "t5", "mixtral", "resnet")


@pytest.mark.parametrize("name", SLICE)
def test_a_probe_changes_nothing(name: str) -> None:
    result = examine(patient("transformers", name), "probe", "plain")
    assert result.outcome in ("unchanged", "refused"), (result.message, result.changed)


def test_control_a_call_is_noticed() -> None:
    result = examine(patient("transformers", "resnet"), "forward", "plain")
    assert any("running_mean" in what for what in result.changed)


def test_a_small_model_is_the_same_each_time_and_in_training_mode() -> None:
    (one, batch), (other, again) = build("bert"), build("bert")
    assert one.training
    assert sum(parameter.nbytes for parameter in one.parameters()) < LARGEST / 100
    assert all(torch.equal(value, again[name]) for name, value in batch.items())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_many_architectures_are_known() -> None:
    assert len(buildable()) > 300
    assert set(SLICE) < set(buildable())
    assert search("bert")["recipe"] == "small"


@pytest.mark.slow
@pytest.mark.parametrize("name", buildable())
def test_every_architecture(name: str) -> None:
    for operation in ("probe", "diagnose"):
        result = examine(patient("transformers", name), operation, "plain")
        assert result.outcome in ("unchanged", "refused"), (operation, result.message, result.changed)
