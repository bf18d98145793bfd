"""What theory predicts for the network inside a model, and the band of chance at the network's own widths."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.doctor.prediction._bands import LEVEL, bands
from isometer.doctor.prediction._networks import ExtractedNetwork, attentions, batch_norms
from isometer.doctor.prediction._overlay_numbers import ENTROPY, OverlayNumbers
from isometer.doctor.prediction._predict_chain import FEWEST, Prediction, checked_runs, resolution_of
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._reductions import MAX_SAMPLES, MAX_TOKENS, every
from isometer.errors import IsometerError
from isometer.simulate._engine import checked_engine, one_thread
from isometer.simulate._network import NetworkWalk
from isometer.simulate._network_work import NetworkSizes
from isometer.simulate._network_work import network_work as draws_work
from isometer.spec import Spec
from isometer.theory.networks._coverage import uncovered_step
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import input_state
from isometer.theory.networks._interpreter import needs_pairs, passage
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._weights import Run
from isometer.theory.networks._work import network_work as theory_work
from isometer.work import TooMuchWorkError

Floats = NDArray[np.float64]
_SECONDS_DRAWS = 4.0  # that draws should take; the fewest of them may take three times that
_SECONDS_PAIR = 6e-6  # of attention and activations, per pair of tokens and layer with attention
_MEMORY = 1e9  # bytes


def predict_network(
    network: ExtractedNetwork, examination: Examination, *, runs: int = 32, seed: int = 0, seconds: float = 12.0
) -> Prediction:
    """Predict what a probe finds along a network, from the representation it found at the network's start.

    The spec is drawn `runs` times at its own widths; bands hold for all layers and metrics together. Beside them are
    the numbers at infinite width, where theory has them and a few seconds suffice; the note says where not.

    Args:
        network: what `extract_network` found.
        examination: the probe of the same model.
        runs: number of draws, at least 8; fewer are taken of large networks.
        seed: seed of the draws.
        seconds: how long infinite width may take, by an estimate on the high side; 0 leaves it out.

    Returns:
        A `Prediction`. For sequences its metrics are `rms`, `token_cosine`, `sample_cosine` and, at attention,
        `attention_entropy`; otherwise those of the Gram matrix of samples.

    Raises:
        IsometerError: too few runs.

    Example:
        >>> from torch import nn
        >>> from isometer.doctor import probe
        >>> from isometer.doctor.prediction import extract_network
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        >>> model = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        >>> found = probe(model, torch.randn(3, 5, 32))
        >>> predicted = predict_network(extract_network(model, found), found, runs=8)
        >>> predicted.leaves_band, sorted(predicted.metrics)
        ((), ['attention_entropy', 'rms', 'sample_cosine', 'token_cosine'])
    """
    checked_runs(runs)
    spec = network.spec
    stride, start, notes = _chosen(network, examination, seconds)
    reads = OverlayNumbers(network.is_sequence, len(start), stride, examination.samples)
    places, layers = _places(network, examination)
    measured = _measured(network, examination, reads, places, layers)
    infinite, said = _infinite(spec, start, reads, places, seconds)
    drawn, used, told = _draws(network, spec, start, reads, places, runs, seed)
    notes += [text for text in (said, told) if text]
    resolution = resolution_of(examination, layers)
    compared = {name: values for name, values in measured.items() if np.isfinite(values).any()}
    found = (
        bands({name: drawn[name] for name in compared}, samples=reads.samples, resolution=resolution)
        if used and compared
        else {}
    )
    leaves = tuple(
        (name, layer)
        for name, band in found.items()
        for layer, outside in zip(layers, band.leaves(compared[name]), strict=True)
        if outside
    )
    if used:
        notes.append(f"Bands hold for all layers and metrics together, with probability {LEVEL:g}, from {used} draws.")
    note = " ".join([network.note, *notes, *(f"{text}." for text in network.rest)])
    return Prediction(spec, tuple(layers), found, infinite, leaves, used, note, network.text)


def _chosen(network: ExtractedNetwork, examination: Examination, seconds: float) -> tuple[int, torch.Tensor, list[str]]:
    """The samples that are predicted: as many as a few seconds of theory allow, two at least."""
    start, stride = network.start.to(torch.float64), network.chosen
    if not network.is_sequence:
        if stride == 1 and examination.samples > MAX_SAMPLES and not batch_norms(network.spec):
            stride = every(examination.samples, MAX_SAMPLES)
            return stride, start[::stride], [f"The prediction is for every {stride}. sample."]
        return stride, start, []
    while len(start) > 2 and _attention_seconds(network.spec, len(start)) > (seconds / 2 or math.inf):
        start = start[: len(start) // 2]
    if len(start) < examination.samples:
        return stride, start, [f"The prediction is for {len(start)} samples."]
    return stride, start, []


def _attention_seconds(spec: Spec, samples: int) -> float:
    rows = samples * spec.shape.positions
    return _SECONDS_PAIR * rows**2 * max(1, len(list(attentions(spec))))


Places = dict[tuple[str, int], tuple[int, int]]
"""From what is read, a representation or the attention of a layer of the spec, to a layer of the examination."""


def _places(network: ExtractedNetwork, examination: Examination) -> tuple[Places, list[int]]:
    where: list[tuple[str, int, int]] = []
    for layer, site in enumerate(network.layers):
        if site is not None and layer:
            where.append(("value", layer, site))
    if network.spec.shape.positions <= MAX_TOKENS:
        for layer, site in enumerate(network.attention, start=1):
            if site is not None and examination.sites[site].attention is not None:
                where.append(("attention", layer, site))
    layers = sorted({site for _, _, site in where})
    return {(kind, layer): (site, layers.index(site)) for kind, layer, site in where}, layers


def _measured(
    network: ExtractedNetwork, examination: Examination, reads: OverlayNumbers, places: Places, layers: Sequence[int]
) -> dict[str, Floats]:
    out = {name: np.full(len(layers), math.nan) for name in reads.names}
    widths = [network.spec.shape.width, *(shape.width for _, shape in network.spec.executed_layers())]
    for (kind, layer), (site, column) in places.items():
        here = examination.sites[site]
        if kind == "value":
            for name, value in reads.measured(here, widths[layer]).items():
                out[name][column] = value
        elif here.attention is not None and reads.samples == -(-examination.samples // reads.stride):
            out[ENTROPY][column] = here.attention.nats
    return out


def _draws(
    network: ExtractedNetwork,
    spec: Spec,
    start: torch.Tensor,
    reads: OverlayNumbers,
    places: Places,
    runs: int,
    seed: int,
) -> tuple[dict[str, Floats], int, str]:
    """Numbers of networks that are drawn from the spec, `(runs, layers)` each, and how many there are."""
    engine = checked_engine(spec, "auto")
    width = 1 + max((column for _, column in places.values()), default=-1)
    own, told = _affordable(spec, engine, len(start), runs)
    if not own or not width:
        return {}, 0, told
    batch = start.flatten(1).to(torch.float64)
    out = {name: np.full((own, width), math.nan) for name in reads.names}
    slots = max(1, min(own, NetworkSizes.of(spec, engine, len(start), own, metrics=1, backward=False).slots()))
    with one_thread(), torch.no_grad():
        for first in range(0, own, slots):
            rows = range(first, min(own, first + slots))
            walk = NetworkWalk(spec, engine, batch.expand(len(rows), -1, -1).contiguous(), seed=seed, runs=rows)
            walk.read_attention()
            for layer in range(1, len(network.layers)):
                walk.step(layer)
                lost = (walk.nonfinite_layer >= 0).numpy()
                if ("value", layer) in places:
                    column = places["value", layer][1]
                    for name, values in reads.drawn(walk.rows, walk.log_scale).items():
                        out[name][rows.start : rows.stop, column] = np.where(lost, math.nan, values)
                if ("attention", layer) in places and walk.attention:
                    column = places["attention", layer][1]
                    entropy = torch.stack([one.entropy for one in walk.attention]).mean(0)
                    out[ENTROPY][rows.start : rows.stop, column] = entropy.double().numpy()
    return out, own, told


def _affordable(spec: Spec, engine: str, samples: int, runs: int) -> tuple[int, str]:
    """How many draws there are time and memory for."""

    def work(count: int) -> float:
        found = draws_work(NetworkSizes.of(spec, engine, samples, count, metrics=1, backward=False))
        return math.inf if found.memory > _MEMORY else found.seconds

    own = runs
    while own > FEWEST and work(own) > _SECONDS_DRAWS:
        own = max(FEWEST, own * 3 // 4)
    if work(own) > 3 * _SECONDS_DRAWS:
        return 0, "There are no bands: drawing networks of this size takes too long."
    return own, f"{own} draws instead of {runs}, for the cost." if own < runs else ""


def _infinite(
    spec: Spec, start: torch.Tensor, reads: OverlayNumbers, places: Places, seconds: float
) -> tuple[dict[str, Floats], str]:
    """Numbers at infinite width, or why there are none."""
    if not seconds:
        return {}, ""
    samples = len(start)
    problem = uncovered_step(spec, samples)
    if problem is not None:
        return {}, f"Infinite width: {problem}."
    layers = list(spec.executed_layers())
    full = bool(spec.shape.axes) and (reads.sequence or needs_pairs(spec.composition))
    work = theory_work(layers, Layout(samples, spec.shape.axes, full), slopes=False, kept=True)
    if work.seconds + _attention_seconds(spec, samples) * reads.sequence > seconds or work.memory > _MEMORY:
        return {}, "Infinite width is left out, for the cost."
    width = 1 + max((column for _, column in places.values()), default=-1)
    out = {name: np.full(width, math.nan) for name in reads.names}
    run = Run(Expectations(), attention=[], pairs=reads.sequence)
    try:
        found = passage(layers, input_state(spec, start.cpu().numpy(), pairs=reads.sequence), run)
    except (IsometerError, TooMuchWorkError) as error:
        return {}, f"Infinite width: {error}."
    for (kind, layer), (_, column) in places.items():
        if layer >= len(found.states):
            continue
        if kind == "value":
            for name, value in reads.expected(found.states[layer]).items():
                out[name][column] = value
        elif found.attention[layer - 1]:
            out[ENTROPY][column] = float(np.mean([one.entropy for one in found.attention[layer - 1]]))
    return {name: values for name, values in out.items() if np.isfinite(values).any()}, ""
