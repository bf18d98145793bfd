"""From a model to the spec of the chain it contains, for the theory and the simulation to speak about.

A chain is a run of equal blocks. Without skips a block starts at its weights: `W`, then at most one normalisation and
one activation, in either order. With skips it starts at what is added: any order of weights, normalisation, activation
and `x + γ branch` that a spec has. What the spec says of the weights is measured: their gain, their orthogonality, the
variance of their biases. A block ends where a layer of the spec hands on, and that is the site it is compared at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import torch
from torch import nn

from isometer.doctor.prediction._blocks import Segment, runs_of_blocks
from isometer.doctor.prediction._graph import Flow, Node, flow
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._reductions import MAX_SAMPLES
from isometer.doctor.probe._trace import Numbers, numbers_of
from isometer.errors import IsometerError
from isometer.spec import Chain, LayerStep, Norm, Schedule, Spec

SHORTEST = 3
"""A chain has at least so many layers."""

_DISTINCT = 5.0  # standard deviations by which gains of layers differ before they count as different
_STEPS: dict[str, LayerStep] = {"w": "weights", "n": "norm", "a": "activation", "r": "residual"}


@dataclass(frozen=True, eq=False)
class ExtractedChain:
    """A part of a model that a spec describes.

    Example:
        >>> from isometer.doctor import probe
        >>> blocks = [m for _ in range(4) for m in (nn.Linear(16, 16, bias=False), nn.Tanh())]
        >>> model = nn.Sequential(*blocks)
        >>> chain = extract(model, probe(model, torch.randn(5, 16)))
        >>> chain.spec.depth, chain.activation, chain.layers
        (4, 'tanh', (0, 2, 4, 6, 8))

    Attributes:
        spec: the spec, with what was measured of the weights.
        layers: the layers of the examination that are layer 0 (the input), 1, … of the spec.
        note: what was assumed.
        activation: the registry's text, `identity` for a linear chain.
        modules: names of the modules that hold the weights, one per layer.
        differentiable: nothing outside reads the representations inside, so that gradients are those of the chain.
        head: the layer of the examination whose weights, and nothing else, read the end of the chain.
    """

    spec: Chain
    layers: tuple[int, ...]
    note: str
    activation: str
    modules: tuple[str, ...]
    differentiable: bool = True
    head: int | None = None


def extract(model: nn.Module, examination: Examination) -> ExtractedChain | None:
    """The longest chain of a model that the theory covers, `None` if it has none of at least three layers.

    Nothing is run: the probe has recorded what each operation reads.

    Args:
        model: the model that was probed.
        examination: what the probe found.

    Returns:
        The chain, or `None`; `why_not` has the reason.

    Example:
        >>> from isometer.doctor import probe
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> blocks = [nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU()) for _ in range(4)]
        >>> model = nn.Sequential(nn.Flatten(), *blocks, nn.Linear(64, 3))
        >>> chain = extract(model, probe(model, torch.randn(8, 4, 16)))
        >>> chain.spec.layers, chain.activation, chain.layers, round(chain.spec.gain, 2)  # 1/√3, as torch draws them
        (4, 'relu', (0, 2, 4, 6, 8), 0.58)
    """
    found = chain_of(model, examination)
    return None if isinstance(found, str) else found


def why_not(model: nn.Module, examination: Examination) -> str:
    """Why `extract` finds no chain in a model; empty if it finds one.

    Args:
        model: the model that was probed.
        examination: what the probe found.

    Returns:
        The reason, for people.

    Example:
        >>> from isometer.doctor import probe
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        >>> why_not(model, probe(model, torch.eye(2, 4)))
        'the longest run of equal layers has 1; a chain has at least 3'
    """
    found = chain_of(model, examination)
    return found if isinstance(found, str) else ""


def chain_of(model: nn.Module, examination: Examination, *, quick: bool = False) -> ExtractedChain | str:
    """The chain, or why there is none; a `quick` look gives up where the sites alone rule one out."""
    few = _too_few(examination) if quick else ""
    if few:
        return few
    graph = flow(getattr(model, "_orig_mod", model), examination.trace)  # of a compiled model
    if not any(node.kind == "weight" for node in graph.nodes):
        return "the model has no fully connected layer"
    runs, reasons = runs_of_blocks(graph)
    problem = ""
    for run in runs:
        if len(run) < SHORTEST:  # they come longest first
            break
        chain = _described(run, graph, examination)
        if not isinstance(chain, str):
            return chain
        problem = problem or chain
    if problem:
        return problem
    longest = max((len(run) for run in runs), default=0)
    reason = f"the longest run of equal layers has {longest}; a chain has at least {SHORTEST}"
    return f"{reason} ({reasons[0]})" if reasons else reason


def _too_few(examination: Examination) -> str:
    """Why the sites alone rule a chain out."""
    weights = [site for site in examination.sites if site.kind == "weight"]
    flat = [site for site in weights if len(site.shape) == 2]
    at: dict[int, set[tuple[int, ...]]] = {}
    for index, site in enumerate(flat):
        # Weights that are calculated, such as normalised ones, have no leaf of their own and count each time.
        at.setdefault(site.depth, set()).add(site.parameters or (-index - 1,))
    if any(_all_different(*(at.get(depth + i, set()) for i in range(SHORTEST))) for depth in at):
        return ""
    if not weights:
        return "the model has no fully connected layer"
    if len(flat) >= SHORTEST:
        return "layers that follow each other have the same weights; theory draws every layer independently"
    other = next((site.op for site in weights if len(site.shape) != 2), "")
    count = f"{len(flat)} layer{'' if len(flat) == 1 else 's'}"
    reason = f"the model has {count} of weights on (samples, features); a chain has at least {SHORTEST}"
    return f"{reason} ({other} acts on more)" if other else reason


def _all_different(*candidates: set[tuple[int, ...]]) -> bool:
    """Whether one can be chosen from each so that no two are the same: Hall's condition."""
    return all(
        len(set().union(*some)) >= size
        for size in range(1, len(candidates) + 1)
        for some in combinations(candidates, size)
    )


def _described(run: list[Segment], graph: Flow, examination: Examination) -> ExtractedChain | str:
    """The chain of a run, or why there is none."""
    nodes = graph.nodes
    left_out = any(nodes[index].site is None for block in run for index in (block.end, _weights(block)))
    # A chain starts where the probe has a Gram matrix of just what the first weights read.
    while run and (nodes[run[0].start].site is None or _width_at(nodes, run[0], examination) != _fan_in(nodes, run[0])):
        run = run[1:]
    sited = [block for block in run if nodes[block.end].site is not None and nodes[_weights(block)].site is not None]
    if len(sited) < len(run):
        run = run[
            : next(i for i, (block, kept) in enumerate(zip(run, [*sited, None], strict=False)) if block is not kept)
        ]
    run = _even_biases(nodes, run)
    residual = "r" in run[0].letters if run else False
    if residual:
        run = _square(nodes, run)
    if len(run) < SHORTEST:
        reason = f"the longest run of equal layers that the probe has seen has {len(run)}; a chain has at least 3"
        return f"{reason} (the probe left out some)" if left_out else reason
    matrices = [numbers_of(_matrix(nodes, block)) for block in run]
    problem = _unsuited(nodes, run, matrices, examination)
    if problem:
        return problem
    law, measured = _law(matrices)
    gains, gamma, phi_gain = _schedules(run, measured)
    sizes = [matrix.shape[0] for matrix in matrices]
    variance = _bias_variance(nodes, run)
    phi, norm = run[0].step("a"), run[0].step("n")
    text = "identity" if phi is None else nodes[phi].activation or "identity"
    try:
        spec = Spec(
            width=sizes[0] if len(set(sizes)) == 1 else tuple(sizes),
            depth=len(sizes),
            activation=text,
            norm=None if norm is None else nodes[norm].norm,
            weights=law,
            gain=gains,
            bias_variance=variance,
            residual=gamma,
            activation_gain=phi_gain,
            order=_order(run[0].letters),
            input_width=matrices[0].shape[1],
        )
    except IsometerError as problem:
        return f"the chain is not a spec: {problem}"
    ends = cast("list[int]", [nodes[run[0].start].site, *(nodes[block.end].site for block in run)])
    modules = tuple(examination.sites[nodes[_weights(block)].site or 0].name for block in run)
    note = _note(spec, examination, nodes[run[0].start].kind)
    return ExtractedChain(spec, tuple(ends), note, text, modules, _closed(graph, run), _head(graph, run))


def _weights(block: Segment) -> int:
    index = block.step("w")
    assert index is not None  # the grammar
    return index


def _matrix(nodes: Sequence[Node], block: Segment) -> torch.Tensor | Numbers:
    weight = nodes[_weights(block)].weight
    assert weight is not None  # or the node has a reason
    return weight


def _fan_in(nodes: Sequence[Node], block: Segment) -> int:
    return int(_matrix(nodes, block).shape[1])


def _width_at(nodes: Sequence[Node], block: Segment, examination: Examination) -> int:
    site = examination.sites[nodes[block.start].site or 0]
    return site.features if site.gram is not None else 0


def _square(nodes: Sequence[Node], run: list[Segment]) -> list[Segment]:
    """Skips need one width: the longest part of the run that has it."""
    parts: list[list[Segment]] = [[]]
    for block in run:
        rows, columns = _matrix(nodes, block).shape
        if rows != columns or (parts[-1] and _fan_in(nodes, parts[-1][0]) != columns):
            parts.append([])
        if rows == columns:
            parts[-1].append(block)
    return max(parts, key=len)


def _even_biases(nodes: Sequence[Node], run: list[Segment]) -> list[Segment]:
    """A spec has one variance of biases: leave out a first layer which has another, as after few inputs."""
    norm = run[0].step("n") if run else None
    kept = None if norm is None else nodes[norm].norm
    if kept is not None and kept.over == "batch" and kept.recenter and run[0].letters.startswith("wn"):
        return run  # the batch mean takes the biases away
    while len(run) > SHORTEST:
        first, rest = _bias_variance(nodes, run[:1]), _bias_variance(nodes, run[1:])
        if first == rest or (rest > 0 and 0.5 < first / rest < 2.0):
            break
        run = run[1:]
    return run


def _bias_variance(nodes: Sequence[Node], run: Sequence[Segment]) -> float:
    """Mean square of the biases; a number behind the weights multiplies them too."""
    squares = []
    for block in run:
        bias = nodes[_weights(block)].bias
        after = block.letters.index("w") + 1
        factor = (
            block.factors.get(after, 1.0) if block.letters[after : after + 1] == "s" and "r" not in block.letters else 1
        )
        squares.append(0.0 if bias is None else numbers_of(bias).mean_square * factor**2)
    return sum(squares) / max(1, len(squares))


def _unsuited(
    nodes: Sequence[Node], run: Sequence[Segment], matrices: Sequence[Numbers], examination: Examination
) -> str:
    """What speaks against a law of independent, centred weights and statistics of the whole batch."""
    seen: dict[tuple[object, ...], int] = {}
    for layer, matrix in enumerate(matrices):
        # A sum and a few entries tell matrices apart without comparing all pairs of them.
        fingerprint = (matrix.shape, matrix.total, matrix.sample)
        if not math.isfinite(matrix.total):
            return f"the weights of layer {layer + 1} are not finite"
        if seen.setdefault(fingerprint, layer) != layer:
            return (
                f"layers {seen[fingerprint] + 1} and {layer + 1} have the same weights; theory draws "
                "every layer independently"
            )
        square = matrix.mean_square
        if square == 0:
            return f"the weights of layer {layer + 1} are all zero"
        mean = matrix.total / matrix.count
        # Large enough to matter, mean/σ √fan_in > 0.1, and six standard errors from chance.
        if mean**2 * matrix.shape[1] > 0.01 * square and mean**2 * matrix.count > 36 * square:
            return (
                f"the weights of layer {layer + 1} have the mean {mean:.3g} beside a deviation of "
                f"{math.sqrt(max(0.0, square - mean**2)):.3g}; the theory's laws are centred"
            )
    norm = run[0].step("n")
    kept: Norm | None = None if norm is None else nodes[norm].norm
    if kept is None or kept.over != "batch":
        return ""
    if examination.samples > MAX_SAMPLES:
        return (
            f"the batch has {examination.samples} samples and the probe keeps inner products of {MAX_SAMPLES}; batch "
            f"norm couples all of them — probe with at most {MAX_SAMPLES}"
        )
    return ""


def _law(matrices: Sequence[Numbers]) -> tuple[str, list[float]]:
    """The law of the weights, and their gains in its units."""
    orthogonal = all(matrix.orthogonal for matrix in matrices)
    gains = []
    for matrix in matrices:
        # ‖W‖² is g² min(d_out, d_in) for orthogonal W, g² d_out for entries of variance g²/d_in.
        units = min(matrix.shape) if orthogonal else matrix.shape[0]
        gains.append(matrix.norm / math.sqrt(units))
    return ("orthogonal" if orthogonal else "gaussian"), _pooled(gains, matrices, orthogonal)


def _pooled(gains: list[float], matrices: Sequence[Numbers], orthogonal: bool) -> list[float]:
    """One gain for all layers unless they differ by more than chance."""
    counts = torch.tensor([float(matrix.count) for matrix in matrices], dtype=torch.float64)
    logs = torch.tensor(gains, dtype=torch.float64).log()
    mean = float((logs * counts).sum() / counts.sum())
    # The logarithm of the rms of N Gaussian entries has standard deviation 1/√(2N).
    deviation = torch.full_like(counts, 1e-6) if orthogonal else (2 * counts).rsqrt()
    if bool(((logs - mean).abs() > _DISTINCT * deviation).any()):
        return gains
    return [math.exp(mean)] * len(gains)


def _schedules(run: Sequence[Segment], gains: Sequence[float]) -> tuple[Schedule, Schedule, Schedule]:
    """Gains, γ and activation gains with the numbers that the model multiplies by taken in."""
    weights, gamma, phi = list(gains), [], []
    carried = 1.0
    for layer, block in enumerate(run):
        # A number at the end of a block multiplies what the next weights read.
        weights[layer] *= carried
        carried = 1.0
        inner, branch = 1.0, math.inf  # γ = ∞ is a layer without skip
        for place, factor in block.factors.items():
            after = block.letters[place + 1 : place + 2]
            if block.letters[place] == "r":
                branch = factor * block.factors.get(place - 1, 1.0)
            elif "r" in block.letters:
                continue  # taken with the addition
            elif block.letters[place - 1] == "w":
                weights[layer] *= factor
            elif after == "a":
                inner *= factor
            else:
                carried = factor
        gamma.append(branch)
        phi.append(inner)
    return _schedule(weights), _schedule(gamma), _schedule(phi)


def _schedule(values: Sequence[float]) -> Schedule:
    return values[0] if len(set(values)) == 1 else tuple(values)


def _order(letters: str) -> tuple[LayerStep, ...]:
    present = [_STEPS[letter] for letter in letters if letter in _STEPS]
    if "activation" not in present:
        present.append("activation")
    if "norm" not in present:
        present.insert(present.index("activation"), "norm")
    return tuple(present)


def _closed(graph: Flow, run: Sequence[Segment]) -> bool:
    """Whether only the chain itself reads what is inside it."""
    inside = {index for block in run for index in block.nodes}
    readers = graph.consumers()
    last = set(run[-1].nodes[run[-1].nodes.index(run[-1].end) :])
    return all(reader in inside for index in (inside - last) | {run[0].start} for reader in readers[index])


def _head(graph: Flow, run: Sequence[Segment]) -> int | None:
    readers = graph.consumers()
    index = run[-1].end
    while len(readers[index]) == 1:
        index = readers[index][0]
        if graph.nodes[index].kind != "scale":
            return graph.nodes[index].site if graph.nodes[index].kind == "weight" else None
    return None


def _note(spec: Chain, examination: Examination, start: str) -> str:
    gain = "per layer" if isinstance(spec.gain, tuple) else f"{spec.gain:.4g}"
    law = "independent Gaussian" if spec.weights == "gaussian" else "random orthogonal"
    parts = [f"Weights taken as {law} with the measured gain ({gain}), whatever law drew them."]
    if spec.bias_variance > 0:
        parts.append(f"Biases taken as Gaussian of the measured variance {spec.bias_variance:.3g}.")
    if spec.steps[0] != "weights" and start != "weight":
        parts.append("The first representation is taken to be rotated at random, which its entries need not be.")
    if examination.samples > MAX_SAMPLES:
        parts.append(f"The prediction is for the {MAX_SAMPLES} or fewer samples whose inner products were kept.")
    return " ".join(parts)
