"""Weights that must not be written to, and arguments that make no sense: the model stays as it was."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from isometer.errors import IsometerError
from isometer.init import (
    InitOutcome,
    asymmetric_,
    delta_orthogonal_,
    fixup_,
    haar_orthogonal_,
    iterative_orthogonalization_,
    odd_point_,
    orthogonalized_xavier_,
    principled_gain_,
    rank_pretraining_,
)
from support.models import F64, draw, mlp, refused

# --- what must not be written to --------------------------------------------------------------------------------------


def _frozen() -> nn.Module:
    model = mlp(3, 8)
    model[2].weight.requires_grad_(False)
    return model


def _tied() -> nn.Module:
    model = mlp(3, 8)
    model[4].weight = model[0].weight
    return model


def _views() -> nn.Module:
    model = mlp(2, 8)
    model[2].weight = nn.Parameter(model[0].weight.detach().mT)
    return model


def _int8() -> nn.Module:
    model = mlp(2, 8)
    model[2].weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
    return model


def _parametrised() -> nn.Module:
    model = mlp(2, 8)
    parametrizations.orthogonal(model[2])
    return model


def _lazy() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8, dtype=F64), nn.LazyLinear(8, dtype=F64))


BAD = {
    "frozen": (_frozen, "is frozen"),
    "tied": (_tied, "share their memory"),
    "views of one tensor": (_views, "share their memory"),
    "meta": (lambda: mlp(2, 8).to("meta"), "meta device"),
    "int8": (_int8, "dtype torch.int8; expected floating point"),
    "parametrised": (_parametrised, "computed from other parameters"),
    "lazy": (_lazy, "no shape yet"),
    "no weights": (lambda: nn.Sequential(nn.ReLU()), "no linear layer or convolution"),
    "not a module": (lambda: "model", "expected a"),
}
SCHEMES: dict[str, Callable[[nn.Module], InitOutcome]] = {
    "haar": haar_orthogonal_,
    "delta": delta_orthogonal_,
    "xavier": orthogonalized_xavier_,
    "gain": lambda model: principled_gain_(model, draw(16, 8)),
    "gain of relu": lambda model: principled_gain_(model, activation="relu"),
    "asymmetric": asymmetric_,
    "odd point": lambda model: odd_point_(model, samples=5),
    "iterative": lambda model: iterative_orthogonalization_(model, draw(16, 8)),
    "rank": lambda model: rank_pretraining_(model, draw(16, 8)),
    "fixup": lambda model: fixup_(model, "0"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", BAD)
def test_weights_that_must_not_be_written_to(case: str, scheme: str) -> None:
    make, message = BAD[case]
    model = make()
    refused(model, lambda: SCHEMES[scheme](model), message)


def test_patterns_leave_frozen_layers_out() -> None:
    assert [layer.name for layer in haar_orthogonal_(_frozen(), layers=["0", "4"]).layers] == ["0", "4"]


def test_quantised_modules_are_refused() -> None:
    quantised = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    fake = type("Linear", (nn.Module,), {"__module__": "torch.ao.nn.quantized.dynamic.modules.linear"})()
    quantised.append(fake)
    refused(quantised, lambda: haar_orthogonal_(quantised), "is quantised")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: haar_orthogonal_(torch.ones(3)), r"shape \(3,\); expected \(out, in\)"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), gain=0.0), "gain is 0.0; expected a number above 0"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), gain=math.inf), "gain is inf; expected a finite number"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), seed=-1), "seed is -1"),
        (lambda: haar_orthogonal_(torch.ones(3, 3, dtype=torch.long)), "expected floating point"),
        (lambda: haar_orthogonal_(torch.empty(0, 3)), "at least one entry"),
        (lambda: haar_orthogonal_(mlp(2, 4), layers="x*"), r"with a name like x\*"),
    ],
)
def test_tensors_and_numbers_that_make_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        call()
