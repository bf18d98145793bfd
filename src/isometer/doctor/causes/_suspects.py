"""Calls that change values in a way that is likely a defect: a rule per kind, from what the call does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from isometer.doctor.causes._facts import ACTIVATIONS, DROPOUTS
from isometer.doctor.causes._flow import FlowStep, ForwardFlow, following, reaching
from isometer.doctor.causes._softmaxes import (
    PARTS,
    PRODUCTS,
    SCORES,
    WEIGHING,
    is_score_product,
    is_weighted_sum,
    softmax_deviation,
)
from isometer.doctor.causes._suspicion import SURE, VIEWS, Suspicion, quoted

_SATURATING = frozenset({"sigmoid", "hardsigmoid", "logsigmoid", "tanh", "hardtanh", "relu6", "softplus", "softsign"})
_BENDING = frozenset({"tanh", "erf", "sigmoid", "softplus", "relu", "exp"})
_ELEMENTWISE = _BENDING | VIEWS | {"add", "sub", "rsub", "mul", "div", "rdiv", "pow", "square", "neg", "clamp"}
_NORMS = frozenset({"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "normalize"})
_WEIGHTS = PRODUCTS | {"linear", "conv1d", "conv2d", "conv3d"}
_LAYERS = _NORMS | ACTIVATIONS | _WEIGHTS
_EXPANSIONS = frozenset({"expand", "expand_as", "broadcast_to", "repeat", "tile", "repeat_interleave"})
_INDEXED_WRITES = frozenset(
    {"index_add", "index_copy", "scatter", "scatter_add", "setitem", "index_put", "scatter_reduce"}
)
_OTHER_AXIS, _AVERAGED, _BEHIND_READOUT, _TWICE, _FEATURES, _LOG_SOFTMAX = 0.5, 2.5, 2.0, 1.5, 0.9, 0.5
_ATTENTION_DECADES, _USUAL_DECADES = 1.5, 0.5
_NARROW = 0.75  # per decade
_SKIP_MOST = 2.0
_SATURATED = 3.0  # root mean square of scores from which on a softmax chooses


class _Verdict(NamedTuple):
    deviation: float
    advice: str
    evidence: str
    answer: str = "input"
    certain: bool = True


Rule = Callable[[FlowStep, "_Pass"], _Verdict | None]


class _Pass(NamedTuple):
    flow: ForwardFlow
    used: set[FlowStep]
    samples: int
    last: set[FlowStep]  # what the output is a view of


def suspects(flow: ForwardFlow, used: set[FlowStep], samples: int) -> Iterator[Suspicion]:
    """Calls that are suspicious for what they do to values.

    Args:
        flow: the graph of a forward pass.
        used: what its output depends on.
        samples: in the batch.
    """
    last = reaching(flow.outputs[:1], lambda step: step.op in VIEWS)
    whole = _Pass(flow, used, samples, last)
    for step in flow.steps:
        if step.module is None or step not in used or not step.inputs or not step.source.signal:
            continue
        for rule in _rules(step.op):
            verdict = rule(step, whole)
            if verdict is not None and verdict.deviation > 0:
                deviation = round(min(verdict.deviation, SURE), 2)
                yield Suspicion(step.module, step.op, step.site, deviation, *verdict[1:])


def _rules(op: str) -> list[Rule]:
    found: list[Rule] = [_RULES[op]] if op in _RULES else []
    if op in DROPOUTS:
        found.append(_dropout)
    if op in ACTIVATIONS or op == "clamp":
        found += [_behind_readout, _behind_activation]
    return found


def _limits(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """Limits that change values now, or that are so narrow that they will once the model is trained."""
    changed, width = step.facts["changed"], step.facts["width"]
    narrow = -_NARROW * math.log10(width / 2) if 0 < width < 2 else 0.0
    evidence = (
        f"it changes {changed:.0%} of the values" if SURE * changed >= narrow else f"its range is {width:.2g} wide"
    )
    return _Verdict(max(SURE * changed, narrow), f"Remove {quoted(step.op)}", evidence) if step.floating else None


def _scaling(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """A product with a constant: worse by decades, unless the factor is by the book or brings values closer to one."""
    factor, rms = step.facts["factor"], step.facts["rms"]
    others = [one for one in step.inputs if one is not step.source]
    if not step.site.file or not step.floating or any(one.content or one.gradient for one in others):
        return None
    advice, evidence = f"Remove the multiplication by {factor:.3g}", f"it takes the values from {rms:.2g} to"
    evidence = f"{evidence} {abs(factor) * rms:.2g} in root mean square"
    if factor == 0 or not math.isfinite(factor):
        return _Verdict(SURE, advice, evidence)
    return _Verdict(_decades(step, whole, abs(factor), rms), advice, evidence)


def _decades(step: FlowStep, whole: _Pass, factor: float, rms: float) -> float:
    decades = abs(math.log10(factor))
    if _is_scaled_skip(step):
        alike = [one for one in whole.flow.steps if one.facts.get("factor") == step.facts["factor"]]
        skips = sum(one.module is not None and _is_scaled_skip(one) for one in alike)
        if skips > 1:
            return min(_SKIP_MOST, decades * skips)
    attends = _is_scaled_score(step)
    if attends and factor >= 1 and rms * factor > _SATURATED and any(map(is_score_product, _handed_on(step.source))):
        return decades + math.log2(rms * factor / _SATURATED) / 2
    if 0.3 <= factor <= 3 or _is_in_polynomial(step):
        return 0.0
    if attends or any(user.op in ("sin", "cos") for user in following(step, _is_view_or_sum)):
        return decades - _ATTENTION_DECADES
    if _is_by_the_book(step, factor):
        return min(decades, _OTHER_AXIS)
    closer = rms > 0 and abs(math.log10(rms * factor)) < abs(math.log10(rms))
    return decades / 2 if closer else decades


def _is_one_of(number: float | None, values: tuple[float, ...]) -> bool:
    return number is not None and any(math.isclose(number, value, rel_tol=1e-3) for value in values)


def _is_scaled_skip(step: FlowStep) -> bool:
    """Whether something is multiplied and added to what layers make of it, with no normalisation behind the sum."""
    for user in step.users:
        others = [one for one in user.inputs if one is not step]
        branch = reaching(others, _is_near(step)) if user.op == "add" and user.shape == step.shape else set()
        if step.source in branch and any(one.op in _WEIGHTS and one.order > step.source.order for one in branch):
            return not any(after.op in _NORMS for after in user.users) or len(user.users) > 1
    return False


def _is_near(step: FlowStep) -> Callable[[FlowStep], bool]:
    return lambda one: one.content and one.order > step.source.order


def _is_square(step: FlowStep) -> bool:
    return step.op == "mul" and len(set(step.inputs)) < len(step.inputs)


def _is_in_polynomial(step: FlowStep) -> bool:
    """Whether a multiple is one of a power, as in activations that are written out."""
    source = step.source
    if source.op in ("pow", "square") or _is_square(source):
        return True
    return any(user.op == "mul" and source in user.inputs for user in step.users)


def _is_view_or_sum(step: FlowStep) -> bool:
    return step.op in VIEWS or step.op in ("add", "sub")


def _handed_on(step: FlowStep) -> set[FlowStep]:
    """A step and those whose entries it has."""
    return reaching([step], lambda one: one.op in VIEWS | DROPOUTS)


def _is_scaled_score(step: FlowStep) -> bool:
    """Whether a scaling belongs to attention: of queries, keys or scores."""
    products = [one for one in _handed_on(step.source) if is_score_product(one)]
    if any(not is_weighted_sum(one) for one in products):
        return True
    later = following(step, lambda user: user.op in SCORES or (is_score_product(user) and not is_weighted_sum(user)))
    scores = {step, *later}
    return any(
        user.op == "softmax" or (user.op == "scaled_dot_product_attention" and scores & set(user.inputs[:2]))
        for user in later
    )


def _is_by_the_book(step: FlowStep, factor: float) -> bool:
    """Whether a factor is a size of what it multiplies, the root of one, or one over those."""
    near = [step.source, *step.source.inputs, *step.users]
    sizes = {float(size) for one in near for size in one.shape if size > 1}
    whole = max(factor, 1 / factor)
    return any(math.isclose(whole, value, rel_tol=1e-3) for size in sizes for value in (size, math.sqrt(size)))


def _dropout(step: FlowStep, whole: _Pass) -> _Verdict | None:
    return _dropping(step.facts["share"], "input")


def _dropout_inside(step: FlowStep, whole: _Pass) -> _Verdict | None:
    return _dropping(step.facts["share"], "nothing dropped")


def _attention(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """Attention in one call: what it drops, and a scale of the scores that is not one over the root of the width."""
    dropped, ratio = _dropping(step.facts["share"], "nothing dropped"), step.facts["ratio"]
    decades = abs(math.log10(ratio)) if ratio > 0 else SURE
    if _is_one_of(step.facts["scale"], (1.0, 1 / step.inputs[0].shape[-1])):
        decades = min(decades, _USUAL_DECADES)  # where queries and keys are normalised, or their weights small
    if decades <= max(_USUAL_DECADES, dropped.deviation):
        return dropped
    evidence = f"they are {ratio:.3g} times what a scale of 1/√width gives"
    return _Verdict(decades, "Scale the attention scores by 1/√width", evidence, "book scale")


def _dropping(share: float, answer: str) -> _Verdict:
    deviation = SURE * max(0.0, min(1.0, (share - 0.3) / 0.6)) ** 1.3
    return _Verdict(deviation, f"Remove the dropout of {share:.0%}", f"it drops {share:.0%} of the values", answer)


def _turned(step: FlowStep, whole: _Pass) -> _Verdict | None:
    advice = f"Remove {quoted(step.op)}"
    if not step.site.file:
        return None
    if 0 in step.facts["axes"] and step.source.axis == 0:
        return _Verdict(SURE, advice, "it permutes the samples of the batch")
    return _Verdict(_OTHER_AXIS, advice, "it changes the order of an axis")


def _chosen(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """Samples in another order, or the first one in the place of all."""
    source = step.source
    if not step.site.file or not step.floating or source.axis != 0:
        return None
    if "one" in step.facts:
        later = following(step, lambda user: user.op in VIEWS)
        spread = any(user.op in _EXPANSIONS and user.shape[:1] == (whole.samples,) for user in later)
        lost = "every sample gets the content of one of them"
        return _Verdict(SURE, "Keep every sample", lost, certain=False) if spread else None
    order = step.facts["order"]
    if len(order) != whole.samples or _is_undone(step, whole):
        return None
    return _Verdict(SURE, "Keep the order of the samples", "it permutes the samples of the batch")


def _is_undone(step: FlowStep, whole: _Pass) -> bool:
    """Whether samples come back into their order later, or were out of it before."""
    order, place = step.facts["order"], (step.module, step.site)
    for other in whole.flow.steps:
        back = other.facts.get("order")
        if (other.module, other.site) == place:
            continue  # what undoes itself does so only if it is called twice
        if back is not None and len(back) == len(order) and all(order[place] == at for at, place in enumerate(back)):
            return True
    indices = [one for one in step.inputs if not one.floating]
    later = {user for index in indices for user in following(index, lambda user: not user.floating)}
    return any(user.op in _INDEXED_WRITES for user in later)


def _averaged(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """A mean over the samples that is not part of a normalisation."""
    source, axes = step.source, step.facts["axes"]
    if not step.site.file or source.axis != 0 or 0 not in axes or len(axes) == len(source.shape) > 1:
        return None
    if source.op in ("pow", "square", "abs", "softmax") or _is_square(source) or _is_centring(step):
        return None
    advice, evidence = f"Remove {quoted(step.op)} over the samples", "it mixes the samples of the batch"
    return _Verdict(_AVERAGED, advice, evidence, "own sample", step.facts["keeps"])


def _is_centring(step: FlowStep) -> bool:
    """Whether a mean is subtracted from what it is the mean of."""
    own = reaching([step.source], lambda one: one.op in VIEWS)
    later = following(step, lambda user: user.op in VIEWS or user.op in ("mul", "add"))
    return any(user.op in ("sub", "rsub", "addcmul", "batch_norm") and own & set(user.inputs) for user in later)


def _softmax(step: FlowStep, whole: _Pass) -> _Verdict | None:
    deviation = softmax_deviation(step, whole.samples)
    if step in whole.last:
        return None if deviation < SURE else _Verdict(SURE, f"Remove {quoted(step.op)}", "it is over the samples")
    kinds = {SURE: "it is over the samples", WEIGHING: "its results are the weights of a sum"}
    evidence = kinds.get(deviation, "its results are not the weights of a sum")
    return _Verdict(deviation, f"Remove {quoted(step.op)}", evidence)


def _behind_readout(step: FlowStep, whole: _Pass) -> _Verdict | None:
    if step not in whole.last or (step.op == "clamp" and not step.facts.get("rectifies")):
        return None
    before = _before(step)
    features = before.op in _NORMS or (before.op == "add" and sum(one.content for one in before.inputs) > 1)
    rectifies = step.op not in _SATURATING or step.facts.get("rectifies", False)
    deviation = _FEATURES if features and rectifies else _BEHIND_READOUT
    if step.op == "log_softmax":
        deviation = _LOG_SOFTMAX  # what cross-entropy does anyway
    return _Verdict(deviation, f"Remove {quoted(step.op)} after the readout", "the model returns its result")


def _behind_activation(step: FlowStep, whole: _Pass) -> _Verdict | None:
    before = _before(step)
    written_out = _is_self_gated(before)
    if step.op not in _SATURATING or not (before.op in ACTIVATIONS or written_out):
        return None
    gated = set(before.inputs)
    if any(user.op == "mul" and gated & set(user.inputs) for user in step.users):
        return None  # x·tanh(softplus(x)) is one activation
    name = "one that is written out" if written_out else quoted(before.op)
    return _Verdict(_TWICE, f"Remove {quoted(step.op)}", f"it follows an activation, {name}")


def _is_self_gated(step: FlowStep) -> bool:
    """Whether a product is of something and a bounded function of itself, as GELU and SiLU are."""
    if step.op != "mul" or len(step.inputs) != 2:
        return False
    for factor, gate in (step.inputs, step.inputs[::-1]):
        plain = {one for one in reaching([factor], _is_multiple) if one.content}
        behind = reaching([gate], lambda one: one.op in _ELEMENTWISE)
        if plain & behind and any(one.op in _BENDING for one in behind - plain):
            return True
    return False


def _is_multiple(step: FlowStep) -> bool:
    return step.op in VIEWS or (step.op in ("mul", "div") and len(step.inputs) == 1)


def _before(step: FlowStep) -> FlowStep:
    """The nearest step behind another that does more than hand on."""
    before = step.source
    while before.op in VIEWS | DROPOUTS and before.inputs:
        before = before.source
    return before


def _blanked(step: FlowStep, whole: _Pass) -> _Verdict | None:
    """Zeros in the place of what was computed, which nothing else uses."""
    if not step.site.file or (step.op == "zero" and not step.source.content):
        return None
    root = step.source
    while _is_part(root) and root.inputs:
        root = root.source
    later = [user for user in following(root, _is_part) if user in whole.used and not _is_part(user)]
    if root.op == "input" or any(user is not step for user in later):
        return None  # zeros to begin with, of the size of something
    served = any(user.op in _LAYERS for user in following(step, lambda user: user.op in VIEWS))
    if not served and step not in whole.last:
        return None  # zeros to add to
    return _Verdict(SURE, f"Remove {quoted(step.op)}", "it replaces everything before it with zeros")


def _is_part(step: FlowStep) -> bool:
    return step.op in VIEWS or step.op in PARTS


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6"), _limits),
    **dict.fromkeys(("mul", "div"), _scaling),
    **dict.fromkeys(("roll", "flip"), _turned),
    **dict.fromkeys(("getitem", "index_select", "narrow"), _chosen),
    **dict.fromkeys(("mean", "sum"), _averaged),
    **dict.fromkeys(("softmax", "softmin"), _softmax),
    **dict.fromkeys(("zeros_like", "zero"), _blanked),
    **dict.fromkeys(("multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu"), _dropout_inside),
    "scaled_dot_product_attention": _attention,
}
