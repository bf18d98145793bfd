"""000/init-experiment: training from one neuron per sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray

from isometer.errors import IsometerError
from isometer_papers.studies import find
from isometer_papers.studies._records import settings_of
from isometer_papers.studies.cells.neuron_training import NEURONS, drawn, neuron_training_cell, started
from isometer_papers.training import image_sets

TINY: dict[str, Any] = {"scheme": NEURONS, "depth": 2, "width": 40, "margin": 0.5, "answer": 1.0, "data": "digits"}
TINY |= {"train": 30, "test": 100, "shrink": 1, "every": 5, "device": "cpu"}
TINY |= {"learning_rate": 0.2, "batch": 10, "epochs": 10, "optimizer": "sgd"}


def test_every_sample_has_a_neuron_of_its_own_and_the_network_learns() -> None:
    sets = drawn(image_sets("digits", 500, 100), 30, 0)
    hidden = started(TINY, sets, 0)[:-1](sets.inputs)
    torch.testing.assert_close(hidden @ hidden.T, torch.eye(30), atol=1e-4, rtol=0.0)
    curves = neuron_training_cell(TINY, 0)
    assert float(curves["gap"][0]) < 1e-4
    assert float(curves["train_accuracy"][-1]) > float(curves["train_accuracy"][1])


def test_answers_have_the_length_that_was_asked_for() -> None:
    sets = drawn(image_sets("digits", 500, 100), 30, 0)
    hidden = started({**TINY, "answer": 10.0}, sets, 0)[:-1](sets.inputs)
    assert hidden.norm(dim=1).detach().numpy() == pytest.approx(10 * np.ones(30), rel=1e-4)


def test_runs_have_training_sets_of_their_own() -> None:
    sets = image_sets("digits", 500, 100)
    assert not torch.equal(drawn(sets, 30, 0).inputs, drawn(sets, 30, 1).inputs)
    assert torch.equal(drawn(sets, 30, 1).inputs, drawn(sets, 30, 1).inputs)


def test_an_unknown_scheme_is_an_error() -> None:
    with pytest.raises(IsometerError, match="unknown scheme 'Xavier'"):
        neuron_training_cell({**TINY, "scheme": "Xavier"}, 0)


def world(ours: float, theirs: float) -> tuple[xarray.Dataset, dict[str, Any]]:
    """Accuracies of one neuron per sample and of the others, with runs that scatter by 0.005."""
    settings = settings_of(find("000/init-experiment").quick)
    names = ("scheme", "depth", "learning_rate", "run")
    sizes = [len(settings[name]) for name in names]
    level = np.where(np.array(settings["scheme"]) == NEURONS, ours, theirs)[:, None, None, None, None]
    noise = 0.005 * np.random.default_rng(0).standard_normal((*sizes, settings["epochs"] + 1))
    data = dict.fromkeys(("train_accuracy", "test_accuracy", "gap"), ((*names, "epoch"), level + noise))
    coordinates = {name: settings[name] for name in names} | {"epoch": np.arange(settings["epochs"] + 1)}
    return xarray.Dataset(data, coordinates), settings


def test_verdicts_in_both_directions() -> None:
    study = find("000/init-experiment")
    assert study.read(*world(0.8, 0.6)).verdict == "agree"
    assert study.read(*world(0.5, 0.6)).verdict == "disagree"
    assert study.read(*world(0.6, 0.6)).verdict == "partly"  # as good, and no faster
    study.draw(*world(0.8, 0.6))
