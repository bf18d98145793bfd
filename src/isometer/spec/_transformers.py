"""Transformers by name: blocks of attention and an MLP beside skip connections, with the norm where you like it."""

from __future__ import annotations

from typing import Any

from isometer.spec._checks import SpecError, one_of
from isometer.spec._norm import Norm
from isometer.spec._program import Shape
from isometer.spec._schedule import PowerLaw, Schedule
from isometer.spec._steps import Act, Attention, Dense, Join, Pool, Repeat, Residual, Step

Network = tuple[tuple[Step, ...], Shape]
Steps = tuple[Step, ...]
_PLACES = ("pre", "post", "sandwich", "peri", "deep", "none")
_BOUNDED = {"dyt": "tanh", "derf": "erf"}  # functions of one entry in place of a norm
DEEP_SKIP, DEEP_GAIN = PowerLaw(2**0.25, depth=0.25), PowerLaw(8**-0.25, depth=-0.25)
"""DeepNorm for blocks of one kind: α = (2 · blocks)^(1/4) beside the branch, weights by β = (8 · blocks)^(−1/4)."""


def norm_steps(kind: str, gain: Schedule = 1.0) -> Steps:
    """A norm by its name, or what stands in its place; no step where the name is `none`."""
    if kind in _BOUNDED:
        return (Act(_BOUNDED[kind], gain),)
    found = Norm.named(kind)
    return () if found is None else (found,)


def _deep(value: Schedule, name: str, factor: PowerLaw) -> Schedule:
    """A number of DeepNorm, times the one that is given."""
    if isinstance(value, tuple | PowerLaw):
        raise SpecError(f"norm='deep' sets {name} by depth; expected a number for {name} — pass one, or norm='post'")
    return PowerLaw(factor.scale * value, depth=factor.depth)


def mlp(width: int, hidden: int | None, activation: str, gain: Schedule, *, gated: bool = False) -> Steps:
    """W₂ φ(W₁ x), four times as wide inside unless told; no step where it has no width."""
    wide = 4 * width if hidden is None else hidden
    if not wide:
        return ()
    inner: Steps = (Dense(wide, gain), Act(activation))
    if gated:
        inner = (Join((inner, (Dense(wide, gain),)), "product"),)
    return (*inner, Dense(width, gain))


def blocks_of(
    parts: tuple[Steps, ...], blocks: int, norm: str, normed: Steps, branch: Schedule, skip: Schedule = 1.0
) -> Steps:
    """Blocks of branches beside skip connections, with norms where `norm` says, and before and after all of them."""
    body: list[Step] = []
    for inner in parts:
        before = normed if norm in ("pre", "sandwich", "peri") else ()
        after = normed if norm in ("sandwich", "peri") else ()
        body.append(Residual((*before, *inner, *after), branch, skip))
        body.extend(normed if norm in ("post", "deep") else ())
    first = normed if norm == "peri" else ()
    last = normed if norm in ("pre", "sandwich", "peri") else ()
    return (*first, Repeat(tuple(body), blocks), *last)


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
    gated: bool = False,
    norm_gain: Schedule = 0.5,
    **attention: Any,
) -> Network:
    """Blocks of causal attention and an MLP, each beside a skip connection; embedded tokens enter.

    Args:
        width: features of a token.
        blocks: how many.
        heads: number of heads of attention.
        tokens: length of the sequence.
        hidden: features inside the MLP, four times the width by default; 0 leaves the MLP out.
        activation: of the MLP.
        norm: where the norm stands: `pre`, `post` (after the addition), `sandwich` (before and after each branch),
            `peri` (the same, and once on the embedded tokens), `deep` (`post` with the factors of DeepNorm beside
            branches and in the weights of values, output and MLP), or `none`.
        norm_kind: its name, `layer` or `rms`; or `dyt`, tanh(αx) in its place, or `derf`, erf(αx).
        qk_gain: factor of query and key weights.
        value_gain: of value weights.
        output_gain: of output weights.
        mlp_gain: of the MLP's weights.
        branch: factor of every branch: `power(depth=-0.5)` for 1/√blocks, 1e-4 for LayerScale before training.
        skip: factor beside it.
        causal: whether a token sees only itself and those before it.
        gated: whether the MLP is W₃(φ(W₁x) · W₂x) and not W₂φ(W₁x).
        norm_gain: α of `dyt` and `derf`.
        attention: further fields of `attention`, such as `qk_norm=True` or `key_heads=2`.

    Example:
        >>> steps, shape = gpt(blocks=2, width=16, heads=4, tokens=5, branch=0.2)
        >>> steps[0].times, shape
        (2, Shape(width=16, axes=(5,)))
    """
    one_of(norm, _PLACES, "norm")
    if norm == "deep":
        skip = _deep(skip, "skip", DEEP_SKIP)
        value_gain, output_gain, mlp_gain = (
            _deep(value, name, DEEP_GAIN)
            for name, value in (("value_gain", value_gain), ("output_gain", output_gain), ("mlp_gain", mlp_gain))
        )
    heads_of = Attention(
        heads, qk_gain=qk_gain, value_gain=value_gain, output_gain=output_gain, causal=causal, **attention
    )
    inner = mlp(width, hidden, activation, mlp_gain, gated=gated)
    parts: tuple[Steps, ...] = ((heads_of,), inner) if inner else ((heads_of,),)
    normed = () if norm == "none" else norm_steps(norm_kind, norm_gain)
    steps = blocks_of(parts, blocks, norm, normed, branch, skip)
    return steps, Shape(width, (tokens,))


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
