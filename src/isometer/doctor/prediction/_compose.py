"""From steps of a trace to steps of the language of networks, piece by piece from the end.

A piece ends in one step of the trace and begins at another that everything in it goes through: one operation, a norm or
an activation that is written out, attention with its four weights, or branches that part and meet again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from isometer.doctor.prediction._expressions import expression, written_norm
from isometer.doctor.prediction._measured_weights import MeasuredWeights, NotInLanguage, rounded
from isometer.doctor.prediction._read_attention import MOVES, PRODUCTS_OF_WEIGHTS, AttentionReader
from isometer.doctor.prediction._waists import Routes
from isometer.doctor.probe._sites import ADDITIONS
from isometer.doctor.probe._trace import TraceStep
from isometer.errors import IsometerError
from isometer.spec import Act, Bias, Convolution, Dense, Dropout, Flatten, Join, Norm, Pool, Residual, Scaling, Step

_PRODUCTS = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
_GLOBAL_POOLS = frozenset({"mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d"})


@dataclass(frozen=True)
class Piece:
    """Steps of the language, the step of the trace that they begin at, and where attention was read inside."""

    steps: tuple[Step, ...]
    source: int
    attention: tuple[int, ...] = ()


class Composer:
    """Reads pieces off a trace.

    Args:
        trace: what the probe recorded.
        ways: what each step reads.
        weights: of the model.
        samples: in the batch.
    """

    def __init__(self, trace: Sequence[TraceStep], ways: Routes, weights: MeasuredWeights, samples: int) -> None:
        self._trace, self._ways, self._weights, self._samples = trace, ways, weights, samples
        self._reader = AttentionReader(trace, ways, weights)
        self._seen = _uses(trace)
        self.uneven = False  # factors that differ from feature to feature were averaged

    @property
    def drops_bias(self) -> bool:
        """Whether small biases of queries or keys were left out."""
        return self._reader.drops_bias

    def piece(self, node: int) -> Piece:
        """The piece that ends in a step.

        Raises:
            NotInLanguage: there is none; the text names the module.
        """
        try:
            return self._piece(node)
        except NotInLanguage as problem:
            if problem.args[1:]:  # an inner piece has said where
                raise
            raise NotInLanguage(f"{self._trace[node].module or '(model)'}: {problem}", node) from None
        except IsometerError as problem:
            raise NotInLanguage(f"{self._trace[node].module or '(model)'}: {problem}", node) from None

    def between(self, start: int, end: int) -> Piece:
        """All steps on the ways from one step to another."""
        steps: tuple[Step, ...] = ()
        attention: tuple[int, ...] = ()
        node = end
        while node != start:
            if node < start:
                raise NotInLanguage("a branch does not begin where the branches split")
            piece = self.piece(node)
            steps, attention, node = piece.steps + steps, piece.attention + attention, piece.source
        return Piece(steps, start, attention)

    def _piece(self, node: int) -> Piece:
        step, read = self._trace[node], self._ways.reads[node]
        if not read:
            raise NotInLanguage(f"{step.name} reads nothing that comes from the input")
        if step.kind == "weight":
            return self._weighted(node)
        if step.name == "multi_head_attention_forward":
            steps, source = self._reader.multi_head(node)
            self._check_own(node, "in_proj_weight", "out_proj_weight")
            return Piece(tuple(steps), source, (node,))
        norm = written_norm(self._trace, self._ways, node)
        if norm is not None:
            source, eps, recenter = norm
            return Piece((Norm(over="features", recenter=recenter, eps=eps),), source)
        if len(read) == 1:
            return Piece(self._single(node), read[0])
        return self._joined(node)

    # --- weights ------------------------------------------------------------------------------------------------------

    def _check_own(self, node: int, *roles: str) -> None:
        """Weights that were applied before are not drawn independently."""
        for role in roles:
            held = self._trace[node].held.get(role)
            if held is not None and held.name and self._seen[held.name] != node:
                other = self._trace[self._seen[held.name]].module or "an earlier layer"
                raise NotInLanguage(f"it has the weights of {other}; theory draws every layer independently")

    def _weighted(self, node: int) -> Piece:
        step, read = self._trace[node], self._ways.reads[node]
        if len(read) != 1 or step.inputs[0] != read[0]:
            raise NotInLanguage(f"the weights of {step.name} are computed from the input")
        self._check_own(node, "weight")
        if "conv" in step.name:
            return Piece((*self._convolution(step), *self._bias(step)), read[0])
        if step.name == "embedding":
            raise NotInLanguage("it embeds tokens; the described network begins after the embedding")
        if step.name not in PRODUCTS_OF_WEIGHTS or not step.held:
            raise NotInLanguage(f"{step.name} is not a dense layer")
        attention = self._reader.behind(read[0])
        if attention is not None:
            steps, source = self._reader.steps(node, attention)
            return Piece(tuple(steps), source, (self._reader.scores(attention),))
        return Piece((*self._flattening(step, read[0]), self._dense(step), *self._bias(step)), read[0])

    def _dense(self, step: TraceStep) -> Dense:
        found = self._weights.numbers(step, "weight")
        if found is None or len(found.shape) != 2:
            raise NotInLanguage(f"the weights of {step.name} are not known")
        width = step.shape[-1]
        fan_in = found.count // width
        if found.orthogonal:
            # ‖W‖² is g² min(d_out, d_in)
            return Dense(width, gain=rounded(found.norm / math.sqrt(min(found.shape))), weights="orthogonal")
        return Dense(width, gain=self._weights.gain_of(found, fan_in))

    def _bias(self, step: TraceStep) -> tuple[Step, ...]:
        variance = self._weights.bias(step)
        return (Bias(variance),) if variance else ()

    def _flattening(self, step: TraceStep, source: int) -> tuple[Step, ...]:
        """Dense weights on (samples, positions · features) read positions as features."""
        before, after = self._trace[source].shape, step.read_shape
        if len(before) < 3 or len(after) != 2 or after[0] != before[0]:
            if len(before) > 3:
                raise NotInLanguage(f"{step.name} acts on the last axis of an image")
            return ()
        positions = math.prod(before[2:]) if len(before) > 3 else before[1]
        return (Flatten(),) if positions > 1 else ()

    def _convolution(self, step: TraceStep) -> tuple[Step, ...]:
        facts = step.settings
        if "transpose" in step.name or "3d" in step.name or "stride" not in facts:
            raise NotInLanguage(f"{step.name} is not in the language of networks")
        found = self._weights.numbers(step, "weight")
        if found is None:
            raise NotInLanguage(f"the weights of {step.name} are not known")
        kernel = found.shape[2:]
        axes = len(kernel)
        stride, dilation = (_per_axis(facts[name], axes) for name in ("stride", "dilation"))
        gain = self._weights.gain_of(found, math.prod(found.shape[1:]))
        padding = _padding(facts["padding"], kernel, dilation)
        return (
            Convolution(
                _one(kernel),
                found.shape[0],
                padding="zeros" if padding else "valid",
                stride=_one(stride),
                dilation=_one(dilation),
                groups=facts["groups"],
                gain=gain,
            ),
        )

    # --- one input ----------------------------------------------------------------------------------------------------

    def _single(self, node: int) -> tuple[Step, ...]:
        step, source = self._trace[node], self._ways.reads[node][0]
        if step.kind == "norm":
            return self._norm(step)
        if step.kind == "activation" and step.activation is not None:
            return (Act(step.activation),)
        if step.kind == "scale":
            return self._scaling(step)
        if step.kind == "dropout":
            rate = float(step.settings.get("p", 0.0))
            return (Dropout(rate),) if rate else ()
        if step.kind == "pool" or step.name == "mean":
            return self._pool(step)
        if step.name in MOVES or self._turns(step):
            return ()
        written = expression(self._trace, self._ways, node, source)
        if written is not None:
            return (Act(written),)
        raise NotInLanguage(_unknown(step))

    def _turns(self, step: TraceStep) -> bool:
        """Whether it exchanges samples and tokens, which a spec does not see."""
        return step.name == "transpose" and len(step.shape) == 3 and set(step.settings.get("axes", ())) == {0, 1}

    def _norm(self, step: TraceStep) -> tuple[Step, ...]:
        name, facts = step.name, step.settings
        if name == "batch_norm":
            if not facts["training"]:
                raise NotInLanguage("batch norm uses running statistics; theory uses those of the batch — probe in "
                                    "train mode")  # fmt: skip
            return self._affine(step, over="batch")
        if name in ("layer_norm", "rms_norm"):
            if tuple(facts["normalized_shape"]) != step.shape[-1:] or len(step.shape) > 3:
                raise NotInLanguage(f"{name} does not normalise over the features")
            return self._affine(step, over="features", recenter=name == "layer_norm")
        if name == "group_norm":
            if len(step.shape) > 2:
                raise NotInLanguage("group norm normalises over positions too; the language has that of each position")
            return self._affine(step, over="groups", groups=int(facts["num_groups"]))
        if name == "normalize" and facts["p"] == 2 and facts["dim"] in (-1, len(step.shape) - 1):
            return (Norm(over="features", recenter=False, size="length"),)
        raise NotInLanguage(f"{name} is not in the language of networks")

    def _affine(self, step: TraceStep, **fields: object) -> tuple[Step, ...]:
        """A normalisation with a factor, and with a bias where the offset differs between features."""
        weight, shift = self._weights.numbers(step, "weight"), self._weights.numbers(step, "bias")
        self.uneven = self.uneven or (weight is not None and weight.constant is None)
        offset = 0.0 if shift is None else shift.constant
        norm = Norm(
            **fields,  # type: ignore[arg-type]
            eps=step.settings["eps"],
            scale=self._weights.factor(step, "weight"),
            shift=rounded(offset or 0.0),
        )
        return (norm,) if shift is None or offset is not None else (norm, Bias(rounded(shift.mean_square)))

    def _scaling(self, step: TraceStep) -> tuple[Step, ...]:
        number = step.settings.get("factor")
        if number is None:
            found = self._weights.numbers(step, "factor")
            self.uneven = self.uneven or (found is not None and found.constant is None)
            number = self._weights.factor(step, "factor")
        if not number or not math.isfinite(number):
            raise NotInLanguage(f"{step.name} multiplies by {number:g}")
        factor = 1.0 / number if step.settings.get("power", 1.0) < 0 else float(number)
        return () if factor == 1.0 else (Scaling(factor),)

    def _pool(self, step: TraceStep) -> tuple[Step, ...]:
        facts, before = step.settings, step.read_shape
        images = len(before) > 3 or step.name.endswith("pool1d")
        axes = tuple(range(2, len(before))) if images else (1,)
        if step.name == "mean":
            over = facts.get("axes")
            if over is None or tuple(sorted(one % len(before) for one in over)) != axes:
                raise NotInLanguage("mean is not over the positions")
            return (Pool(),)
        if step.name in _GLOBAL_POOLS:
            kept = _per_axis(facts.get("output") or (0,), len(axes))
            sizes = [before[axis] for axis in axes]
            if all(one == 1 for one in kept):
                return (Pool(),) if math.prod(sizes) > 1 else ()
            if any(one < 1 or size % one for one, size in zip(kept, sizes, strict=True)):
                raise NotInLanguage(f"{step.name} has windows of several sizes")
            windows = tuple(size // one for one, size in zip(kept, sizes, strict=True))
            return () if set(windows) == {1} else (Pool("mean", _one(windows)),)
        if "size" not in facts or not step.name.startswith(("avg", "max")):
            raise NotInLanguage(f"{step.name} is not in the language of networks")
        if any(facts["padding"]) or facts["other"]:
            raise NotInLanguage(f"{step.name} has padding, dilation or rounded windows; the language has none of them")
        size, stride = (_per_axis(facts[name], len(axes)) for name in ("size", "stride"))
        return (Pool("max" if step.name.startswith("max") else "mean", _one(size), _one(stride)),)

    # --- several inputs -----------------------------------------------------------------------------------------------

    def _joined(self, node: int) -> Piece:
        step, read, start = self._trace[node], self._ways.reads[node], self._ways.parting[node]
        if start < 0:
            raise NotInLanguage(f"{step.name} combines values that come from different inputs")
        written = expression(self._trace, self._ways, node, start)
        if written is not None:
            return Piece((Act(written),), start)
        if len(read) != 2 or not (step.kind == "add" or step.name in _PRODUCTS):
            raise NotInLanguage(_unknown(step))
        sides = [self.between(start, one) for one in read]
        attention = sides[0].attention + sides[1].attention
        if step.kind != "add":
            if any(self._trace[one].shape != step.shape for one in read):
                raise NotInLanguage(f"{step.name} multiplies tensors of different shapes")
            return Piece((Join((sides[0].steps, sides[1].steps), by="product"),), start, attention)
        factors = (1.0, float(step.settings.get("alpha", 1.0)))
        return Piece(_sum(sides[0].steps, sides[1].steps, factors), start, attention)


def _uses(trace: Sequence[TraceStep]) -> dict[str, int]:
    """By the name of a parameter that is a weight, the first step that applies it."""
    first: dict[str, int] = {}
    for node, step in enumerate(trace):
        for role in ("weight", "table", "in_proj_weight", "out_proj_weight"):
            held = step.held.get(role)
            if held is not None and held.name and (step.kind == "weight" or role != "weight"):
                first.setdefault(held.name, node)
    return first


def _sum(one: tuple[Step, ...], two: tuple[Step, ...], factors: tuple[float, float]) -> tuple[Step, ...]:
    """A skip connection where one side is a multiple of what both read, a sum of branches otherwise."""
    (first, kept), (second, own) = (_without_factor(side, factor) for side, factor in zip((one, two), factors,
                                                                                         strict=True))  # fmt: skip
    if not first and not second:
        return (Scaling(kept + own),)
    if not first:
        return (Residual(second, own, kept),)
    if not second:
        return (Residual(first, kept, own),)
    return (Join((_scaled(first, kept), _scaled(second, own)), by="sum"),)


def _without_factor(steps: tuple[Step, ...], factor: float) -> tuple[tuple[Step, ...], float]:
    if steps and isinstance(steps[-1], Scaling) and isinstance(steps[-1].factor, float):
        return steps[:-1], factor * steps[-1].factor
    return steps, factor


def _scaled(steps: tuple[Step, ...], factor: float) -> tuple[Step, ...]:
    return steps if factor == 1.0 else (*steps, Scaling(factor))


def _per_axis(sizes: Sequence[int], axes: int) -> tuple[int, ...]:
    return tuple(sizes) * axes if len(sizes) == 1 else tuple(sizes)


def _one(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """One number for all axes where they are alike, as people write it."""
    return sizes[:1] if len(set(sizes)) == 1 else sizes


def _padding(padding: str | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]) -> bool:
    """Whether a convolution pads with zeros so that positions stay; it may also pad nothing."""
    if isinstance(padding, str):
        return padding == "same"
    reach = [one * (size - 1) for one, size in zip(dilation, kernel, strict=True)]
    around = _per_axis(padding, len(kernel))
    if not any(around):
        return not any(reach)
    if any(2 * one != size for one, size in zip(around, reach, strict=True)):
        raise NotInLanguage("a convolution does not pad by half its reach")
    return True


def _unknown(step: TraceStep) -> str:
    if step.kind == "activation":
        return f"the activation {step.name} is not in the registry"
    if step.name == "__getitem__":
        return "it takes a part of its input, which the language of networks does not have"
    if step.name in ADDITIONS:
        return "it adds what is not computed from the same input, such as vectors of positions"
    return f"{step.name} is not in the language of networks"
