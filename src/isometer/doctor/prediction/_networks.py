"""From a model to a composition of the language of networks: blocks, branches, attention, convolutions.

The way from the input to an output is cut into pieces (`_compose.py`). The longest run of them that the language has,
and that begins where the probe has kept the representation, is the extracted network. Its layers are those that a spec
has: one begins at every piece with weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import nn

from isometer.doctor.prediction._compose import Composer, Piece
from isometer.doctor.prediction._measured_weights import MeasuredWeights, NotInLanguage
from isometer.doctor.prediction._waists import Routes, ways
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._reductions import TOKEN_SAMPLES, every
from isometer.doctor.probe._trace import TraceStep
from isometer.errors import IsometerError
from isometer.spec import Attention, Composition, Convolution, Norm, Shape, Spec
from isometer.spec._normal_form import rolled
from isometer.spec._steps import has_weights, walk
from isometer.spec._text import network_text

Tensor = torch.Tensor
FEWEST = 2
"""Layers that an extracted network has at least."""


@dataclass(frozen=True, eq=False)
class ExtractedNetwork:
    """A part of a model that a composition of the language describes.

    Example:
        >>> from isometer.doctor import probe
        >>> block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        >>> model = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        >>> network = extract_network(model, probe(model, torch.randn(3, 5, 16)))
        >>> network.text.split(" > ")[0], network.spec.depth
        ('input(16, [5])', 4)

    Attributes:
        spec: the network, with what was measured of the weights; a layer of it begins at every step with weights.
        layers: for each layer of the spec, its input first, the layer of the examination that it is compared with;
            `None` where the probe has none.
        attention: for each layer of the spec the layer of the examination whose attention it is, `None` without one.
        start: what the probe kept of the representation at the start, `(samples, features, *positions)`.
        chosen: which samples of the batch that is: every so many.
        modules: where the network begins and where it ends.
        note: what was assumed.
        rest: why the theory does not cover what follows it and what comes before, one line for each; may be empty.
    """

    spec: Composition
    layers: tuple[int | None, ...]
    attention: tuple[int | None, ...]
    start: Tensor = field(repr=False)
    chosen: int
    modules: tuple[str, str]
    note: str
    rest: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The spec as text, with repeats."""
        return network_text(rolled(self.spec.steps), self.spec.shape)

    @property
    def is_sequence(self) -> bool:
        """Whether positions are tokens."""
        return len(self.spec.shape.axes) == 1 and not any(isinstance(s, Convolution) for s in walk(self.spec.steps))


def extract_network(model: nn.Module, examination: Examination) -> ExtractedNetwork | None:
    """The longest part of a model that the language of networks describes, `None` if it describes none.

    Nothing is run: the probe has recorded what each operation reads, and the representations near the input.

    Args:
        model: the model that was probed.
        examination: what the probe found.

    Returns:
        The network, or `None`; `why_no_network` has the reason.

    Example:
        >>> from isometer.doctor import probe
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        >>> found = extract_network(model, probe(model, torch.randn(4, 3, 6, 6)))
        >>> [type(step).__name__ for step in found.spec.steps]
        ['Convolution', 'Bias', 'Norm', 'Act', 'Convolution', 'Bias']
    """
    found = network_of(model, examination)
    return None if isinstance(found, str) else found


def why_no_network(model: nn.Module, examination: Examination) -> str:
    """Why `extract_network` finds nothing in a model; empty if it does.

    Example:
        >>> from isometer.doctor import probe
        >>> model = nn.LSTM(4, 4, batch_first=True)
        >>> why_no_network(model, probe(model, torch.randn(2, 3, 4)))
        'the language of networks describes no two layers in a row; (model): lstm is not in the language of networks'
    """
    found = network_of(model, examination)
    return found if isinstance(found, str) else ""


def network_of(model: nn.Module, examination: Examination) -> ExtractedNetwork | str:
    """The network, or why there is none, in one line."""
    trace = examination.trace
    if not trace or not examination.outputs:
        return "the probe has not recorded what the model returns"
    own = getattr(model, "_orig_mod", model)  # of a compiled model
    parameters = {name: parameter.detach() for name, parameter in own.named_parameters()}
    routes = ways(trace)
    best: ExtractedNetwork | None = None
    problem = ""
    weights = MeasuredWeights(parameters, trace)
    for end in dict.fromkeys(sorted(examination.outputs, key=lambda one: -routes.depth[one])):
        composer = Composer(trace, routes, weights, examination.samples)
        runs, reasons = _runs(composer, routes, end)
        problem = problem or next((reason for reason in reasons.values()), "")
        for run in runs:
            found = _described(run, trace, examination, composer, weights, reasons)
            if isinstance(found, str):
                problem = problem or found
            elif best is None or found.spec.depth > best.spec.depth:
                best = found
    if best is not None:
        return best
    reason = "the language of networks describes no two layers in a row"
    return f"{reason}; {problem}" if problem else reason


Run = list[tuple[int, Piece]]


def _runs(composer: Composer, routes: Routes, end: int) -> tuple[list[Run], dict[int, str]]:
    """Pieces one after the other, from the input, cut where the language has none; and why, by the step of the cut."""
    runs: list[Run] = [[]]
    reasons: dict[int, str] = {}
    node = end
    while node >= 0 and routes.reads[node]:
        try:
            piece = composer.piece(node)
        except NotInLanguage as problem:
            if runs[-1] or node == end:  # of what is in a row, the first from the end says why
                reasons[node] = str(problem.args[0])
            if runs[-1]:
                runs.append([])
            node = routes.parting[node]
            continue
        runs[-1].insert(0, (node, piece))
        node = piece.source
    return [run for run in runs if run], reasons


def _described(
    run: Run,
    trace: Sequence[TraceStep],
    examination: Examination,
    composer: Composer,
    weights: MeasuredWeights,
    reasons: Mapping[int, str],
) -> ExtractedNetwork | str:
    """The network of a run from the first representation on that was kept, or why there is none."""
    place = next((at for at, (_, piece) in enumerate(run) if _usable(piece.source, run[at:], trace, examination)), None)
    if place is None:
        return f"{trace[run[0][0]].module or '(model)'}: the probe keeps representations near the input only"
    run = run[place:]
    source = run[0][1].source
    held = examination.early[source]
    start, chosen = _features_first(held, run, examination.samples)
    steps = tuple(step for _, piece in run for step in piece.steps)
    try:
        spec = Composition(steps, Shape(start.shape[1], tuple(start.shape[2:])))
    except IsometerError as problem:
        return f"the extracted network is not a spec: {problem}"
    if chosen > 1 and batch_norms(spec):
        return (
            f"batch norm couples all {examination.samples} samples, and the probe keeps sequences of {TOKEN_SAMPLES} — "
            f"probe with at most {TOKEN_SAMPLES}"
        )
    ends, attention = _layers(run, trace)
    if len(ends) != spec.depth or spec.depth < FEWEST:
        return ""
    before = _before(source, trace, reasons)
    after = next((reasons[node] for node in sorted(reasons) if node > run[-1][0]), "")
    rest = tuple(text for text in (after and f"It ends before {after}", before) if text)
    modules = (trace[source].module or "input", trace[run[-1][0]].module or "output")
    layers = (_site(source, trace), *ends)
    note = _note(composer, weights.copies(trace[source + 1 : run[-1][0] + 1]))
    return ExtractedNetwork(spec, layers, attention, start, chosen, modules, note, rest)


def _before(source: int, trace: Sequence[TraceStep], reasons: Mapping[int, str]) -> str:
    found = next((reasons[node] for node in sorted(reasons, reverse=True) if node <= source), "")
    return f"It begins after {found}" if found else ""


def _usable(source: int, run: Run, trace: Sequence[TraceStep], examination: Examination) -> bool:
    held = examination.early.get(source)
    if held is None or not bool(torch.isfinite(held).all()):
        return False
    if trace[source].kind == "weight" and not _weighted(run):
        return False
    return held.dim() in (2, 3, 4)


def _weighted(run: Run) -> bool:
    return any(has_weights(piece.steps) for _, piece in run)


def _features_first(held: Tensor, run: Run, samples: int) -> tuple[Tensor, int]:
    """`(samples, features, *positions)`, and every how many-th sample of the batch it has."""
    steps = [step for _, piece in run for step in piece.steps]
    convolutional = any(isinstance(step, Convolution) for step in walk(steps))
    if held.dim() != 3:
        return held, 1
    own = every(samples, TOKEN_SAMPLES)
    kept = -(-samples // own)
    if held.shape[0] != kept and held.shape[1] == samples:  # tokens first
        held = held.transpose(0, 1)[::own]
    return (held if convolutional else held.transpose(1, 2)), own


def _site(node: int, trace: Sequence[TraceStep]) -> int | None:
    return trace[node].layer


def _layers(run: Run, trace: Sequence[TraceStep]) -> tuple[list[int | None], tuple[int | None, ...]]:
    """Where each layer of the spec is compared: at its last piece, or at what hands that on in another shape."""
    ends: list[int | None] = []
    attention: list[int | None] = []
    site: int | None = None
    scores: int | None = None
    weighted = False
    for node, piece in run:
        heavy = has_weights(piece.steps)
        if heavy and weighted:
            ends.append(site)
            attention.append(scores)
            weighted, scores = False, None
        if piece.steps or site is None:
            site = trace[node].layer
        for one in piece.attention:
            scores = trace[one].layer
        weighted = weighted or heavy
    ends.append(site)
    attention.append(scores)
    return ends, tuple(attention)


def _note(composer: Composer, copies: tuple[str, str] | None) -> str:
    parts = ["Weights taken as independent Gaussian with the measured gains, whatever law drew them."]
    if composer.uneven:
        parts.append("Factors that differ from feature to feature are taken as their root mean square.")
    if composer.drops_bias:
        parts.append("Small biases of queries and keys are left out.")
    if copies is not None:
        parts.append(f"{copies[0]} and {copies[1]} hold the same weights; theory draws every layer independently.")
    return " ".join(parts)


def batch_norms(spec: Spec) -> bool:
    """Whether samples of the batch depend on each other.

    Example:
        >>> batch_norms(Spec("input(4) > dense > norm('batch') > act('relu')"))
        True
    """
    return any(isinstance(step, Norm) and step.over == "batch" for step in walk(spec.composition))


def attentions(spec: Spec) -> Iterator[Attention]:
    """The attention steps of a network.

    Example:
        >>> len(list(attentions(Spec("input(8, [4]) > attention(heads=2)"))))
        1
    """
    return (step for step in walk(spec.composition) if isinstance(step, Attention))
