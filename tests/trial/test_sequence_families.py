"""Models of sequences: a model that predicts the next token must not see it, and faults must change the model."""

import numpy as np
import pytest
import torch

from isometer.trial import TASKS, families, family_named
from isometer.trial._family import Blueprint, Family

NEXT_TOKEN = ("markov", "text")


def _next_token_blueprint(family: Family) -> Blueprint | None:
    rng = np.random.default_rng(3)
    drawn = (family.draw(rng, False) for _ in range(12))
    return next((blueprint for blueprint in drawn if blueprint.task in NEXT_TOKEN), None)


CAUSAL = [name for name, family in families().items() if _next_token_blueprint(family) is not None]


def _skip_without_library(name: str) -> None:
    if name.startswith("library-"):
        pytest.importorskip("transformers")


def _change_before(name: str, blueprint: Blueprint) -> tuple[float, float]:
    """How much the answers change before and from the place where the tokens change."""
    model = family_named(name).model(blueprint, seed=0).eval()
    tokens, _ = TASKS[blueprint.task].batch(4, seed=0, step=0)
    other = tokens.clone()
    other[:, 12:] = (other[:, 12:] + 5) % TASKS[blueprint.task].vocabulary
    with torch.no_grad():
        change = (model(tokens) - model(other)).abs()
    return change[:, :12].max().item(), change[:, 12:].max().item()


def test_there_are_causal_families() -> None:
    assert len(CAUSAL) >= 25


@pytest.mark.parametrize("name", CAUSAL)
def test_next_token_is_not_seen(name: str) -> None:
    _skip_without_library(name)
    blueprint = _next_token_blueprint(family_named(name))
    assert blueprint is not None
    before, after = _change_before(name, blueprint)
    assert before <= 1e-3 * after, (blueprint, before, after)
    assert after > 1e-4


@pytest.mark.parametrize("name", ["gpt-prenorm", "llama-like", "library-llama", "library-gpt2"])
def test_a_reversed_mask_lets_it_see_the_next_token(name: str) -> None:
    _skip_without_library(name)
    blueprint = _next_token_blueprint(family_named(name))
    assert blueprint is not None
    before, after = _change_before(name, blueprint.changed(mask="reversed"))
    assert before > 1e-2 * after


def test_skips_and_norms_of_the_library_can_be_taken_out() -> None:
    pytest.importorskip("transformers")
    family = family_named("library-gpt2")
    blueprint = _next_token_blueprint(family)
    assert blueprint is not None
    sound = family.model(blueprint, 0)
    plain = family.model(blueprint.changed(norms="none", skip=0.0), 0)
    assert any(isinstance(module, torch.nn.LayerNorm) for module in sound.modules())
    assert not any(isinstance(module, torch.nn.LayerNorm) for module in plain.modules())
    tokens, _ = TASKS[blueprint.task].batch(2, seed=0, step=0)
    first = plain.get_submodule("model.transformer.h.0")
    inside: list[torch.Tensor] = []
    first.register_forward_hook(lambda module, inputs, output: inside.append(output))
    plain.eval()(tokens)
    embedded = sound.get_submodule("model.transformer.wte")(tokens)
    assert inside[0].norm() < 0.5 * embedded.norm()  # branches alone are small at initialisation
