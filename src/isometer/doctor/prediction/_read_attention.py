"""Attention in a trace: queries, keys and values back to their weights, and everything in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from isometer.doctor.prediction._expressions import written_norm
from isometer.doctor.prediction._measured_weights import MeasuredWeights, NotInLanguage, rounded
from isometer.doctor.prediction._waists import Routes
from isometer.doctor.probe._trace import TraceStep
from isometer.spec import Attention, Bias, Step

MOVES = frozenset(
    {"view", "reshape", "flatten", "contiguous", "clone", "to", "float", "type_as", "squeeze", "unsqueeze", "alias"}
    | {"unflatten", "view_as", "reshape_as", "detach", "identity", "Identity", "Conv1D"}
)
"""Steps that hand on the same entries in another shape."""
_OF_HEADS = MOVES | frozenset(
    {"transpose", "permute", "swapaxes", "movedim", "mT", "T", "__get__", "expand", "repeat_interleave"}
    | {"split", "chunk", "unbind", "tensor_split", "__getitem__", "select", "narrow", "repeat"}
)
PRODUCTS_OF_WEIGHTS = frozenset({"linear", "addmm", "matmul", "mm", "__matmul__"})
_SMALL_BIAS = 0.05
_MASKS = frozenset({"masked_fill", "where", "__setitem__", "masked_fill_", "tril"})


@dataclass
class _Side:
    """Queries, keys or values."""

    weight: int
    source: int
    factor: float = 1.0
    norm: float | None = None  # factor of a norm over the features of a head
    angles: tuple[float, ...] = ()


class AttentionReader:
    """Reads the attention that ends in a step of a trace."""

    def __init__(self, trace: Sequence[TraceStep], ways: Routes, weights: MeasuredWeights) -> None:
        self._trace, self._ways, self._weights = trace, ways, weights
        self.drops_bias = False  # small biases of queries or keys were left out

    def behind(self, node: int) -> int | None:
        """The attention that output weights read: a fused one, or the product of its weights and values."""
        for _ in range(12):
            step, read = self._trace[node], self._ways.reads[node]
            if step.name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
                return node
            if step.kind == "product" and len(read) == 2:
                return node if self._softmax(read[0]) is not None else None
            if len(read) != 1 or step.name not in _OF_HEADS:
                return None
            node = read[0]
        return None

    def multi_head(self, node: int) -> tuple[list[Step], int]:
        """`multi_head_attention_forward`, which has its weights inside."""
        step, read = self._trace[node], self._ways.reads[node]
        facts = step.settings
        if facts.get("separate", True) or not facts.get("self") or len(set(read)) != 1:
            raise NotInLanguage("multi_head_attention_forward reads queries and keys from different places")
        causal = _causal(facts["mask"], facts.get("dropout", 0.0))
        bias = self._weights.tensor(step, "in_proj_bias")
        packed = self._weights.packed(step)
        if not packed:
            raise NotInLanguage("the weights of multi_head_attention_forward are not known")
        width = packed[0].shape[1]
        q, k, v = (self._weights.gain_of(part, width) for part in packed)
        output = self._weights.gain(step, "out_proj_weight", width)
        squares = [0.0] * 3 if bias is None else [float(part.double().square().mean()) for part in bias.chunk(3)]
        self._check_bias(squares[0], q)
        variance = squares[2] * output**2 + self._weights.bias(step, "out_proj_bias")
        heads = int(facts["heads"])
        found = Attention(
            heads=heads,
            head_width=width // heads,
            qk_gain=rounded(math.sqrt(q * k)),
            value_gain=v,
            output_gain=output,
            causal=causal,
        )
        return [found, *([Bias(variance)] if variance else [])], read[0]

    def scores(self, node: int) -> int:
        """The step that the probe has read the spread of attention at."""
        if self._trace[node].kind != "product":
            return node
        softmax = self._softmax(self._ways.reads[node][0])
        assert softmax is not None  # `behind` has seen it
        return softmax

    def steps(self, output: int, node: int) -> tuple[list[Step], int]:
        """Attention with the output weights that read it, and the step that its weights read."""
        step, read = self._trace[node], self._ways.reads[node]
        if step.kind == "product":
            q, k, v, causal, scale, shape = self._written(node)
            heads, head_width = shape
        else:
            if len(read) != 3 or not step.settings.get("square"):
                raise NotInLanguage("attention reads queries and keys from different places")
            q, k, v = (self._side(one) for one in read)
            facts = step.settings
            causal = _causal(facts["mask"], facts["dropout"])
            scale, heads, head_width = facts["scale"], facts["heads"], facts["head_width"]
        if not q.source == k.source == v.source:
            raise NotInLanguage("attention reads queries, keys and values from different places")
        return self._described(output, q, k, v, causal, scale, heads, head_width), q.source

    def _described(
        self,
        output: int,
        q: _Side,
        k: _Side,
        v: _Side,
        causal: bool,
        scale: float,
        heads: int,
        head_width: int,
    ) -> list[Step]:
        fused = q.weight == k.weight
        widths = [self._fan_out(one.weight) for one in (q, k, v)]
        key_heads = heads if fused else widths[1] // head_width
        if fused and widths[0] != 3 * heads * head_width:
            key_heads = (widths[0] - heads * head_width) // (2 * head_width)
        if not fused and (widths[0] != heads * head_width or widths[1] != widths[2]):
            raise NotInLanguage("heads of queries, keys and values have different widths")
        if (q.norm is None) != (k.norm is None):
            raise NotInLanguage("only one of queries and keys is normalised")
        gains = [self._gain(one.weight) for one in (q, k, v)]
        biases = [self._weights.bias(self._trace[one.weight]) for one in (q, k, v)]
        self._check_bias(biases[0], gains[0])
        if q.angles or k.norm is not None:  # otherwise the softmax does not see the bias of keys
            self._check_bias(biases[1], gains[1])
        own = self._trace[output]
        output_gain = self._gain(output)
        variance = biases[2] * output_gain**2 + self._weights.bias(own)
        if q.angles != k.angles:
            raise NotInLanguage("rotary positions rotate queries and keys differently")
        found = Attention(
            heads=heads,
            head_width=head_width,
            key_heads=None if key_heads == heads else key_heads,
            qk_gain=rounded(math.sqrt(gains[0] * gains[1] if q.norm is None else abs(q.norm * (k.norm or 0.0)))),
            value_gain=rounded(gains[2] * v.factor),
            output_gain=output_gain,
            causal=causal,
            qk_norm=q.norm is not None,
            rotary=bool(q.angles),
            rotary_base=_base(q.angles, head_width) if q.angles else 10_000.0,
            score_scale=_scale(scale * q.factor * k.factor, head_width),
        )
        return [found, *([Bias(variance)] if variance else [])]

    def _check_bias(self, square: float, gain: float) -> None:
        """Biases of queries and keys are left out where they are small against weights times a token of size 1."""
        if square > _SMALL_BIAS * gain**2:
            raise NotInLanguage("queries or keys have a bias, which the language of networks does not have")
        self.drops_bias = self.drops_bias or square > 0

    def _written(self, node: int) -> tuple[_Side, _Side, _Side, bool, float, tuple[int, int]]:
        """`softmax(scale · Q Kᵀ + mask) V` in its parts."""
        attention, values = self._ways.reads[node]
        softmax = self._softmax(attention)
        assert softmax is not None  # `behind` has seen it
        mask = self._trace[softmax].settings.get("mask", "other")
        scale, at = 1.0, self._ways.reads[softmax][0]
        while self._trace[at].kind != "product":
            step = self._trace[at]
            if step.kind == "scale":
                scale *= self._number(step)
            elif step.settings.get("mask", "open") == "bias":
                raise NotInLanguage(f"{step.name} adds a bias to the scores of attention")
            elif step.name not in MOVES | _MASKS and "mask" not in step.settings:
                raise NotInLanguage(f"{step.name} comes between scores and softmax")
            at = self._ways.reads[at][0]
        product = self._trace[at]
        sides = self._ways.reads[at]
        if len(sides) != 2:
            raise NotInLanguage(f"{product.name} multiplies queries or keys that do not come from the input")
        q, k = map(self._side, sides)
        if len(product.read_shape) != 4:
            raise NotInLanguage(f"{product.name} multiplies queries and keys that are not (samples, heads, …)")
        causal = _causal(mask, 0.0)
        return q, k, self._side(values), causal, scale, (product.read_shape[1], product.read_shape[3])

    def _softmax(self, node: int) -> int | None:
        for _ in range(6):
            step = self._trace[node]
            if step.name == "softmax":
                return node if step.settings.get("last") else None
            if step.kind == "dropout" and step.settings.get("p", 1.0) > 0:
                raise NotInLanguage(f"attention drops {step.settings['p']:g} of its weights; probe with mode='eval'")
            if len(self._ways.reads[node]) != 1 or (step.name not in MOVES and step.kind != "dropout"):
                return None
            node = self._ways.reads[node][0]
        return None

    def _side(self, node: int) -> _Side:
        """Back from queries, keys or values to the weights that made them."""
        factor, norm = 1.0, None
        angles: tuple[float, ...] = ()
        for _ in range(64):
            step, read = self._trace[node], self._ways.reads[node]
            if step.kind == "weight":
                if step.name not in PRODUCTS_OF_WEIGHTS or len(read) != 1:
                    raise NotInLanguage(f"{step.name} makes queries, keys or values")
                return _Side(node, read[0], factor, norm, angles)
            written = written_norm(self._trace, self._ways, node)
            if step.kind == "norm" or written is not None:
                recentred = step.name == "layer_norm" or (written is not None and written[2])
                if recentred or len(step.shape) != 4:
                    raise NotInLanguage("queries or keys are normalised by something other than the size of each head")
                norm = (norm or 1.0) * factor * self._weights.factor(step, "weight")
                factor, node = 1.0, read[0] if written is None else written[0]
            elif step.kind == "scale":
                factor *= self._number(step)
                node = read[0]
            elif len(read) == 1 and (step.name in _OF_HEADS or step.name == "cat"):
                node = read[0]
            elif step.kind in ("add", "other") and len(read) > 1:
                angles = self._rotation(node)
                node = self._ways.parting[node]
            else:
                raise NotInLanguage(f"{step.name} comes between the weights of a head and its scores")
        raise NotInLanguage("attention is too long to follow")

    def _rotation(self, node: int) -> tuple[float, ...]:
        """The angles of rotary positions between a step and the one where its ways part."""
        start = self._ways.parting[node]
        if start < 0:
            raise NotInLanguage(f"{self._trace[node].name} combines values that come from different inputs")
        found: tuple[float, ...] = ()
        for inner in self._ways.inside(start, node):
            for step in (self._trace[inner], *(self._trace[one] for one in self._ways.fixed[inner])):
                found = found or tuple(step.settings.get("rotation", ()))
        if not found:
            raise NotInLanguage(f"{self._trace[node].name} comes between the weights of a head and its scores")
        features = self._trace[node].shape[-1]
        if len(found) == features // 2:
            found = (*found, *found)
        if len(found) != features:
            raise NotInLanguage(
                f"rotary positions rotate {len(found)} of {features} features of a head; the "
                "language of networks rotates all"
            )
        return tuple(sorted(found, reverse=True)[::2])

    def _number(self, step: TraceStep) -> float:
        number = step.settings.get("factor")
        if number is None:
            number = self._weights.factor(step, "factor")
        return 1.0 / number if step.settings.get("power", 1.0) < 0 else float(number)

    def _fan_out(self, node: int) -> int:
        return self._trace[node].shape[-1]

    def _gain(self, node: int) -> float:
        return self._weights.gain(self._trace[node], "weight", self._fan_in(node))

    def _fan_in(self, node: int) -> int:
        found = self._weights.numbers(self._trace[node], "weight")
        assert found is not None
        return found.count // self._fan_out(node)


def _causal(mask: str, dropout: float) -> bool:
    if dropout > 0:
        raise NotInLanguage(f"attention drops {dropout:g} of its weights; probe with mode='eval'")
    if mask == "bias":
        raise NotInLanguage("attention adds a bias to its scores, which the language of networks does not have")
    if mask not in ("open", "causal"):
        raise NotInLanguage("attention has a mask that is neither open nor causal")
    return mask == "causal"


def _scale(scale: float, head_width: int) -> float | None:
    return None if math.isclose(scale * math.sqrt(head_width), 1.0, rel_tol=1e-6) else scale


def _base(angles: tuple[float, ...], head_width: int) -> float:
    """The base b of angles b^(−2p/head_width)."""
    base = 10_000.0 if len(angles) < 2 else angles[1] ** (-head_width / 2)
    expected = [base ** (-2 * p / head_width) for p in range(len(angles))]
    near = all(abs(one - two) < 1e-3 * two + 3e-4 for one, two in zip(angles, expected, strict=True))
    if not near:
        raise NotInLanguage("rotary positions rotate by angles that are not powers of one base")
    nice = float(f"{base:.2g}")
    return nice if math.isclose(nice, base, rel_tol=1e-3) else base
