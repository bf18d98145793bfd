"""The trajectory that theory predicts for a chain in a model and its band of chance, beside the measured one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.doctor.prediction._bands import LEVEL, Band, bands
from isometer.doctor.prediction._extraction import ExtractedChain
from isometer.doctor.prediction._infinite_width import infinite_width
from isometer.doctor.prediction._rollout import GRADIENT, rollout
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._reductions import MAX_SAMPLES
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.spec import Chain, Spec

Floats = NDArray[np.float64]
FEWEST = 8
"""Draws a band is made of at least."""

_BUDGET = 1e10  # products that the draws should cost; the fewest of them may cost twice that
_BACKWARD = 2.7  # cost of a draw with gradients
_OVERHEAD = 2e5  # of one layer of one draw, in products
_PLACES = 128  # layers that are read of a deep chain
_ROUNDING = 16.0  # rounding errors that a Gram matrix of the model's precision may be wrong by


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a chain's spec predicts for the batch that was measured at its start.

    Example:
        >>> import torch
        >>> from isometer.doctor import extract, probe
        >>> blocks = [m for _ in range(4) for m in (torch.nn.Linear(16, 16, bias=False), torch.nn.Tanh())]
        >>> model = torch.nn.Sequential(*blocks)
        >>> examination = probe(model, torch.randn(5, 16, generator=torch.Generator().manual_seed(0)))
        >>> prediction = predict_chain(extract(model, examination), examination, runs=8)
        >>> prediction.layers, "mean_abs_cosine" in prediction.metrics
        ((0, 2, 4, 6, 8), True)

    Attributes:
        spec: the spec.
        layers: layers of the examination that the numbers belong to.
        metrics: for each metric the mean over draws of the network at its own width, and the band within which a
            network of the law stays at all layers and in all metrics with probability 0.95.
        infinite: the same metrics at infinite width, where theory has them.
        leaves_band: `(metric, layer of the examination)` where the model's own trajectory is outside.
        runs: draws behind the bands.
        note: what was assumed.
        text: the spec in the language of networks.
    """

    spec: Spec
    layers: tuple[int, ...]
    metrics: dict[str, Band]
    infinite: dict[str, Floats]
    leaves_band: tuple[tuple[str, int], ...]
    runs: int
    note: str
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: nan is `None`, infinities are `"inf"` and `"-inf"`."""
        bands = {
            name: {part: json_data(getattr(found, part)) for part in ("mean", "low", "high")}
            for name, found in self.metrics.items()
        }
        return {
            "spec": json.loads(self.spec.to_json()),
            "network": self.text or str(self.spec),
            "layers": list(self.layers),
            "metrics": bands,
            "infinite": json_data(self.infinite),
            "note": self.note,
            "runs": self.runs,
            "leaves_band": [{"metric": metric, "layer": layer} for metric, layer in self.leaves_band],
        }


def predict_chain(chain: ExtractedChain, examination: Examination, *, runs: int = 32, seed: int = 0) -> Prediction:
    """Predict what a probe finds along a chain, from the Gram matrix it found at the chain's first layer.

    The spec is drawn `runs` times with the exact-in-law engine; gradients are shifted so that they agree with the
    measured ones at the last layer. In deeper chains 128 layers are read, evenly spaced. Fewer draws are
    taken of deep and wide chains, without gradients if need be, and the note says so.

    Args:
        chain: what `extract` found.
        examination: the probe of the same model.
        runs: number of draws, at least 8.
        seed: seed of the draws.

    Returns:
        A `Prediction`.

    Raises:
        IsometerError: too few runs, or the first layer has no finite Gram matrix.

    Example:
        >>> from torch import nn
        >>> from isometer.doctor import probe
        >>> from isometer.doctor.prediction import extract
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(64, 64), nn.Tanh())])
        >>> found = probe(model, torch.randn(6, 64))
        >>> predicted = predict_chain(extract(model, found), found)
        >>> predicted.layers, predicted.leaves_band
        ((0, 2, 4, 6, 8), ())
        >>> measured = found.values["rms"][list(predicted.layers)]
        >>> bool((abs(measured / predicted.metrics["rms"].mean - 1) < 0.1).all())
        True

    Implements: the prediction side of 001/eq-5.11, 001/eq-5.12, 000/def-layer, 002/eq-5 for a given model.
    """
    checked_runs(runs)
    places = _places(chain.spec.layers)
    layers = [chain.layers[place] for place in places]
    gram = examination.gram(layers[0])
    if gram is None or not np.isfinite(gram).all():
        raise IsometerError(
            f"layer {layers[0]} has no finite Gram matrix to start from; expected one — probe with finite inputs"
        )
    # Measured gradients are of all samples, drawn ones of those whose inner products were kept.
    whole = examination.samples <= MAX_SAMPLES
    backward = chain.differentiable and whole and math.isfinite(_measured(examination, GRADIENT, layers)[-1])
    spec = chain.spec
    used, backward = _affordable(spec, len(gram), runs, backward)
    dtypes = {examination.sites[layer].dtype for layer in layers}
    resolution = resolution_of(examination, layers)
    drawn = rollout(
        spec,
        gram,
        at=places,
        runs=used,
        seed=seed,
        dtype=torch.float64 if dtypes == {"float64"} else torch.float32,
        resolution=resolution,
        backward=backward,
        cotangent=_cotangent(chain, examination) if backward else None,
    ).values
    measured = {name: _measured(examination, name, layers) for name in drawn}
    if backward:
        drawn[GRADIENT] = drawn[GRADIENT] - drawn[GRADIENT][:, -1:] + measured[GRADIENT][-1]
    _unresolved(measured, examination, layers, resolution)
    predicted = bands(drawn, samples=len(gram), resolution=resolution)
    leaves = []
    for name, found in predicted.items():
        outside = found.leaves(measured[name])
        outside[-1 if name == GRADIENT else 0] = False  # they agree there by construction
        leaves += [(name, layers[i]) for i in np.flatnonzero(outside)]
    infinite = infinite_width(spec, gram, places)
    if GRADIENT in infinite:
        infinite[GRADIENT] = infinite[GRADIENT] + _measured(examination, GRADIENT, layers)[-1]
    note = _note(chain, used, runs, backward)
    return Prediction(spec, tuple(layers), predicted, infinite, tuple(leaves), used, note)


def checked_runs(runs: int) -> None:
    """Refuse fewer draws than a band needs."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < FEWEST:
        raise IsometerError(f"runs is {runs!r}; expected a whole number of at least {FEWEST} — a band needs that many")


def resolution_of(examination: Examination, layers: Sequence[int]) -> float:
    """The relative precision of what was measured at some layers."""
    dtypes = {examination.sites[layer].dtype for layer in layers}
    return _ROUNDING * max((torch.finfo(getattr(torch, dtype)).eps for dtype in dtypes if dtype), default=1e-7)


def _places(depth: int) -> list[int]:
    """Layers of the spec that are read: all, or evenly spaced ones of a deep chain."""
    return (
        sorted({round(depth * i / _PLACES) for i in range(_PLACES + 1)}) if depth > _PLACES else list(range(depth + 1))
    )


def _measured(examination: Examination, name: str, layers: list[int]) -> Floats:
    """The numbers of the probe; the rms of the samples whose Gram matrix was kept."""
    if name == "rms" and examination.samples > MAX_SAMPLES:
        grams = [examination.gram(layer) for layer in layers]
        return np.array([math.nan if g is None else math.sqrt(float(np.trace(g)) / len(g)) for g in grams])
    return np.asarray(examination.values[name][layers], dtype=float)


def _affordable(spec: Chain, samples: int, runs: int, backward: bool) -> tuple[int, bool]:
    """How many draws a prediction can afford, and whether gradients are among it."""
    work = sum(
        samples * samples * (fan_in + fan_out) + _OVERHEAD
        for fan_in, fan_out in zip(spec.fan_in, spec.widths, strict=True)
    )
    backward = backward and FEWEST * work * _BACKWARD <= 2 * _BUDGET
    most = int(_BUDGET / work / _BACKWARD) if backward else int(1.5 * _BUDGET / work)
    return max(FEWEST, min(runs, most)), backward


def _cotangent(chain: ExtractedChain, examination: Examination) -> Floats | None:
    """Inner products of the samples' gradients by the head's output, from those by its weights (002/prop-8)."""
    if chain.head is None:
        return None
    site, inputs = examination.sites[chain.head], examination.sites[chain.layers[-1]]
    if site.gradient_gram is None or site.alignment != "exact" or inputs.gram is None:
        return None
    products, gram = site.gradient_gram.double().cpu().numpy(), inputs.gram.double().cpu().numpy()
    if products.shape != gram.shape or not (np.diag(gram) > 0).all():
        return None
    # ⟨δ_i, δ_j⟩ = ⟨∇_i, ∇_j⟩ / ⟨x_i, x_j⟩; near orthogonal inputs the quotient is rounding, and left at 0.
    size = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    known = np.abs(gram) > 1e-4 * size
    quotient: Floats = np.where(known, products / np.where(known, gram, 1.0), 0.0)
    top = np.diag(quotient).max()
    return quotient / top if top > 0 and np.isfinite(quotient).all() else None


def _unresolved(measured: dict[str, Floats], examination: Examination, layers: list[int], resolution: float) -> None:
    """Leave the isometry gap out of the comparison where it is made of rounding."""
    for place, layer in enumerate(layers):
        gram = examination.gram(layer)
        if "isometry_gap" in measured and gram is not None and np.isfinite(gram).all():
            values = np.linalg.eigvalsh(gram)
            # Entries off by a part `resolution` of the largest move eigenvalues by up to n times that.
            if not values[0] > len(gram) * resolution * values[-1]:
                measured["isometry_gap"][place] = math.nan


def _note(chain: ExtractedChain, used: int, asked: int, backward: bool) -> str:
    parts = [chain.note]
    if used < asked:
        parts.append(f"{used} draws instead of {asked}, for the cost.")
    parts.append(f"Bands hold for all layers and metrics together, with probability {LEVEL:g}, from {used} draws.")
    if not backward:
        parts.append("Gradients are not predicted.")
    elif chain.head is None:
        parts.append("The gradient at the chain's end is taken as independent Gaussian.")
    return " ".join(parts)
