"""Transformers by name: blocks of attention and an MLP beside skip connections, with the norm where you like it."""

from __future__ import annotations

from typing import Any

from isometer.spec._checks import one_of
from isometer.spec._norm import Norm
from isometer.spec._program import Shape
from isometer.spec._schedule import Schedule
from isometer.spec._steps import Act, Attention, Dense, Pool, Repeat, Residual, Step

Network = tuple[tuple[Step, ...], Shape]
Steps = tuple[Step, ...]
_PLACES = ("pre", "post", "sandwich", "peri", "none")


def _blocks(
    width: int,
    blocks: int,
    attention: Attention,
    *,
    hidden: int | None,
    activation: str,
    norm: str,
    norm_kind: str,
    branch: Schedule,
    skip: Schedule,
    mlp_gain: Schedule,
) -> tuple[Steps, Steps, Steps]:
    """What stands before the blocks, the blocks, and what follows."""
    one_of(norm, _PLACES, "norm")
    found = None if norm == "none" else Norm.named(norm_kind)
    normed: Steps = () if found is None else (found,)
    wide = 4 * width if hidden is None else hidden
    mlp: Steps = (Dense(wide, mlp_gain), Act(activation), Dense(width, mlp_gain)) if wide else ()
    body: list[Step] = []
    for inner in ((attention,), mlp) if mlp else ((attention,),):
        before = normed if norm in ("pre", "sandwich", "peri") else ()
        after = normed if norm in ("sandwich", "peri") else ()
        body.append(Residual((*before, *inner, *after), branch, skip))
        body.extend(normed if norm == "post" else ())
    first = normed if norm == "peri" else ()
    last = () if norm in ("post", "none") else normed
    return first, (Repeat(tuple(body), blocks),), last


def gpt(
    *,
    width: int = 512,
    blocks: int = 24,
    heads: int = 8,
    tokens: int = 32,
    hidden: int | None = None,
    activation: str = "gelu",
    norm: str = "pre",
    norm_kind: str = "layer",
    qk_gain: Schedule = 1.0,
    value_gain: Schedule = 1.0,
    output_gain: Schedule = 1.0,
    mlp_gain: Schedule = 1.0,
    branch: Schedule = 1.0,
    skip: Schedule = 1.0,
    causal: bool = True,
    **attention: Any,
) -> Network:
    """Blocks of causal attention and an MLP, each beside a skip connection; embedded tokens enter.

    Args:
        width: features of a token.
        blocks: how many.
        heads: of attention.
        tokens: length of the sequence.
        hidden: features inside the MLP, four times the width unless given; 0 leaves the MLP out.
        activation: of the MLP.
        norm: where the norm stands: `pre`, `post` (after the addition), `sandwich` (before and after each branch),
            `peri` (the same, and once on the embedded tokens), or `none`.
        norm_kind: its name, `layer` or `rms`.
        qk_gain: factor of query and key weights.
        value_gain: of value weights.
        output_gain: of output weights.
        mlp_gain: of the MLP's weights.
        branch: factor of every branch; `power(depth=-0.5)` for 1/√blocks.
        skip: factor beside it; with `norm='post'` this is the α of DeepNorm.
        causal: whether a token sees only itself and those before it.
        attention: further fields of `attention`, such as `qk_norm=True` or `key_heads=2`.

    Example:
        >>> steps, shape = gpt(blocks=2, width=16, heads=4, tokens=5, branch=0.2)
        >>> steps[0].times, shape
        (2, Shape(width=16, axes=(5,)))
    """
    heads_of = Attention(
        heads, qk_gain=qk_gain, value_gain=value_gain, output_gain=output_gain, causal=causal, **attention
    )
    parts = _blocks(
        width,
        blocks,
        heads_of,
        hidden=hidden,
        activation=activation,
        norm=norm,
        norm_kind=norm_kind,
        branch=branch,
        skip=skip,
        mlp_gain=mlp_gain,
    )
    return tuple(step for part in parts for step in part), Shape(width, (tokens,))


def vit(*, inputs: int = 48, classes: int = 10, tokens: int = 64, causal: bool = False, **blocks: Any) -> Network:
    """Patches, an embedding of each, blocks of full attention, the mean over patches and a readout.

    Args:
        inputs: features of a patch.
        classes: outputs.
        tokens: patches.
        causal: as for `gpt`.
        blocks: the other arguments of `gpt`.

    Example:
        >>> steps, shape = vit(blocks=2, width=16, heads=4, tokens=9)
        >>> [type(step).__name__ for step in steps], shape.width
        (['Dense', 'Repeat', 'Norm', 'Pool', 'Dense'], 48)
    """
    steps, shape = gpt(tokens=tokens, causal=causal, **blocks)
    return (Dense(shape.width), *steps, Pool(), Dense(classes)), Shape(inputs, shape.axes)
