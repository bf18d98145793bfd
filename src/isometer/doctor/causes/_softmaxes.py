"""What a softmax is for: the weights of a sum, as in attention, pooling and gates, or nothing that it should do."""

from __future__ import annotations

from isometer.doctor.causes._facts import DROPOUTS
from isometer.doctor.causes._flow import FlowStep, following, reaching
from isometer.doctor.causes._suspicion import SURE, VIEWS

PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "baddbmm", "addmm", "mv", "tensordot", "inner"})
SCORES = (
    VIEWS
    | DROPOUTS
    | {
        "mul",
        "div",
        "add",
        "sub",
        "masked_fill",
        "where",
        "clamp",
        "tanh",
        "cat",
        "getitem",
        "setitem",
        "pad",
        "unseen",
    }
)
"""What scores go through between the product of queries and keys and the softmax."""
_WEIGHTS = VIEWS | DROPOUTS | {"div", "masked_fill", "where", "nan_to_num", "clamp", "pad", "cat"}
PARTS = frozenset({"getitem", "select", "unbind", "chunk", "split", "narrow", "gather", "index_select"})
_CHOICES = frozenset({"topk", "argmax", "max", "multinomial", "sort", "argsort"})
_FEW = 16
WEIGHING, _MIXING, _ALONE = 0.5, 1.5, 2.0


def is_score_product(step: FlowStep) -> bool:
    """Whether a step multiplies two things that both depend on the input."""
    return step.op in PRODUCTS and sum(one.content for one in step.inputs) > 1


def is_weighted_sum(step: FlowStep) -> bool:
    """Whether a product has a softmax for one of its factors."""
    return any(one.op == "softmax" for one in reaching(step.inputs, lambda one: one.op in _WEIGHTS))


def softmax_deviation(step: FlowStep, samples: int) -> float:
    """How wrong a softmax is where it is."""
    source, axis = step.source, step.facts["axis"]
    if samples > 1 and source.axis == 0 and axis == 0 and len(source.shape) > 1:
        return SURE
    products = [one for one in reaching([source], lambda one: one.op in SCORES) if one.op in PRODUCTS and one.content]
    contracted, mixing, chosen = _uses(step)
    if products and contracted:
        return 0.0
    scores = any(is_score_product(one) and not is_weighted_sum(one) for one in products)
    few = bool(source.shape) and source.shape[axis] <= _FEW
    if scores or chosen or ((contracted or mixing) and (few or not _is_over_features(source, axis))):
        return WEIGHING
    return _MIXING if products or contracted or mixing else _ALONE


def _is_over_features(source: FlowStep, axis: int) -> bool:
    """Whether an axis is the one that the layer before made, or part of it."""
    layer = source
    while layer.op in SCORES and layer.inputs:
        layer = layer.source
    channels = 1 if layer.op.startswith("conv") else -1
    made = layer.shape[channels] if len(layer.shape) > 1 else 1
    return not made % source.shape[axis] and (axis == len(source.shape) - 1 or channels == 1)


def _uses(step: FlowStep) -> tuple[bool, bool, bool]:
    """Whether the result multiplies something in a product, in a weighted sum, and whether it chooses."""
    contracted = mixing = chosen = False
    part: dict[FlowStep, bool] = {step: False}
    for user in following(step, _hands_weights_on):
        cut = user.op in PARTS or any(part.get(one, False) for one in user.inputs)
        part[user] = cut
        contracted |= is_score_product(user)
        chosen |= user.op in _CHOICES
        if user.op == "mul" and sum(one.content for one in user.inputs) > 1:
            summed = any(after.op in ("sum", "mean") for after in following(user, lambda after: after.op in VIEWS))
            mixing |= cut or summed
    return contracted, mixing, chosen


def _hands_weights_on(step: FlowStep) -> bool:
    scaled = step.op in ("mul", "add", "sub") and sum(one.content for one in step.inputs) < 2
    return scaled or step.op in _WEIGHTS or step.op in PARTS
