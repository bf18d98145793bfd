"""Small transformers trained to fill gaps in the help texts that ship with Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import xarray

_SYMBOLS = " \nabcdefghijklmnopqrstuvwxyz0123456789.,:;()'\"_-=*`"
_OTHER = len(_SYMBOLS)
_GAP = _OTHER + 1  # stands for a symbol that is to be found
VOCABULARY = _GAP + 1
_TEXTS = 512  # on which networks are compared


@cache
def symbols() -> np.ndarray[Any, Any]:
    """Python's help texts as numbers of symbols, capitals and small letters alike.

    Example:
        >>> len(symbols()) > 100_000, int(symbols().max()) < VOCABULARY
        (True, True)
    """
    from pydoc_data.topics import topics

    numbers = {letter: number for number, letter in enumerate(_SYMBOLS)}
    text = "\n".join(topics[name] for name in sorted(topics)).lower()
    return np.array([numbers.get(letter, _OTHER) for letter in text])


def unigram_entropy() -> float:
    """Loss of whoever knows how often symbols occur, and nothing of the text around a gap, in nats.

    Example:
        >>> 2.0 < unigram_entropy() < 4.0
        True
    """
    share = np.bincount(symbols(), minlength=VOCABULARY) / len(symbols())
    return float(-(share[share > 0] * np.log(share[share > 0])).sum())


def gap_filling_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """A transformer trained by Adam; its loss at the end, and what theory says of it before.

    `network` is a preset with other keys in braces, without norm or readout of its own; `steps`, `batch`, `rate`.
    A quarter of the symbols are gaps. `loss` is that of texts drawn once for all networks, after the last step.
    `angle` and `gradient` are the exponents of a block; where no state is steady, tokens neither merge nor part, and
    `gradient` is the mean over the blocks.

    Example:
        >>> text = "gpt(blocks=1, width=16, heads=4, tokens=8, norm='post', branch={branch}, causal=False)"
        >>> cell = {"network": text, "branch": 0.5, "steps": 10, "batch": 4, "rate": 1e-3, "device": "cpu"}
        >>> found = gap_filling_cell(cell, 0)
        >>> 1.0 < float(found["loss"]) < 6.0, float(found["cosine"]) < 1.0
        (True, True)
    """
    import torch
    from torch import nn

    from isometer.nn import build
    from isometer.spec import Repeat, Spec
    from isometer.theory.transformers import exponents, token_diagram

    c = configuration
    spec = Spec(str(c["network"]).format(**c))
    width, tokens = spec.shape.width, spec.shape.axes[0]
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    model = build(spec, seed=seed).to(c["device"])
    table, places = (
        nn.Parameter(torch.randn(count, width, generator=generator).mul(0.5**0.5).to(c["device"]))
        for count in (VOCABULARY, tokens)
    )
    readout = nn.Linear(width, VOCABULARY, bias=True, device=c["device"])
    with torch.no_grad():
        readout.weight.copy_(torch.randn(VOCABULARY, width, generator=generator) / width**0.5)
        readout.bias.zero_()
    optimizer = torch.optim.Adam([*model.parameters(), table, places, *readout.parameters()], lr=c["rate"])

    def loss(texts: int, rng: np.random.Generator) -> Any:
        starts = rng.integers(0, len(symbols()) - tokens, texts)
        wanted = torch.from_numpy(symbols()[starts[:, None] + np.arange(tokens)]).to(c["device"])
        gaps = torch.from_numpy(rng.random((texts, tokens)) < 0.25).to(c["device"])
        seen = torch.where(gaps, _GAP, wanted)
        states = model((table[seen] + places).transpose(1, 2)).transpose(1, 2)
        return nn.functional.cross_entropy(readout(states)[gaps], wanted[gaps])

    for _ in range(c["steps"]):
        optimizer.zero_grad()
        loss(c["batch"], rng).backward()
        optimizer.step()
    with torch.no_grad():
        at_the_end = float(loss(_TEXTS, np.random.default_rng(_TEXTS)))
    point = token_diagram(lambda _x, _y: spec, [0.0], [0.0])
    numbers = {
        name: float(getattr(point, name)[0, 0]) for name in ("token_cosine", "attention_entropy", "log_jacobian")
    }
    found = exponents(spec)
    blocks = next(step.times for step in spec.composition if isinstance(step, Repeat))
    return xarray.Dataset(
        {
            "loss": at_the_end,
            "angle": 0.0 if found is None else found.angle,
            "gradient": numbers["log_jacobian"] / blocks if found is None else found.gradient,
            "phase": int(point.phase[0, 0]),
            "cosine": numbers["token_cosine"],
            "entropy": numbers["attention_entropy"],
            "log_jacobian": numbers["log_jacobian"],
        }
    )
