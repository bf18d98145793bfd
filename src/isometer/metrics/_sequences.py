"""Numbers of sequences of tokens: their length, and cosines within and across samples."""

from __future__ import annotations

import math
from typing import Any

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, namespace

SEQUENCE_METRICS = ("rms", "token_cosine", "sample_cosine", "attention_entropy", "attention_participation")
"""What predictions and simulations of networks with attention report by layer."""


def sequence_numbers(gram: Array, samples: int) -> dict[str, Any]:
    """Of the Gram matrix `H Hᵀ / d` of all tokens, `(…, nT, nT)`, the index being sample · T + position.

    `rms`: the root of the mean square of all entries. `token_cosine`: the mean cosine of two tokens of a sample.
    `sample_cosine`: the mean cosine of two samples' tokens at the same position; nan for one sample, as the former is
    for one token. A token of no length has the cosine 0 to all others.

    Example:
        >>> import numpy as np
        >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])  # two samples of two tokens
        >>> {name: round(float(v), 3) for name, v in sequence_numbers(x @ x.T / 2, 2).items()}
        {'rms': 0.707, 'token_cosine': 0.5, 'sample_cosine': 0.5}
    """
    xp = namespace(gram)
    size = gram.shape[-1]
    positions = size // samples
    squares = xp.clip(xp.einsum("...ii->...i", gram), 0.0, None)
    roots = xp.sqrt(xp.where(squares > 0, squares, 1.0))
    cosine = gram / (roots[..., :, None] * roots[..., None, :])
    blocks = cosine.reshape(*gram.shape[:-2], samples, positions, samples, positions)
    own = (squares > 0).sum(-1) * 1.0  # the cosine of a token with itself
    within = xp.einsum("...iaib->...", blocks) - own
    across = xp.einsum("...iaja->...", blocks) - own
    pairs, others = samples * positions * (positions - 1), positions * samples * (samples - 1)
    return {
        "rms": xp.sqrt(squares.mean(-1)),
        "token_cosine": within / pairs if pairs else within * math.nan,
        "sample_cosine": across / others if others else across * math.nan,
    }


def check_sequences(names: list[str], axes: tuple[int, ...], samples: int) -> None:
    """Refuse numbers of sequences where there are none.

    Example:
        >>> check_sequences(["token_cosine"], (4,), 2)
    """
    asked = [name for name in names if name in SEQUENCE_METRICS]
    if asked and not axes:
        raise IsometerError(
            f"{asked[0]} is a number of sequences, but the network has no positions; expected some — "
            "begin it with input(64, [16])"
        )
    if "sample_cosine" in asked and samples < 2:
        raise IsometerError("sample_cosine needs 2 samples, and the batch has 1 — pass a larger batch")
