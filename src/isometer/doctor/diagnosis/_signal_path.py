"""An examination as the checks read it: the way from the input to the readout, and trends along it."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.diagnosis._paths import Paths
from isometer.doctor.probe._examination import Examination, without_gradients
from isometer.doctor.probe._sites import Site

Floats = NDArray[np.float64]
_HIDDEN = frozenset({"activation", "norm", "add", "attention", "recurrent", "other"})
_SOFTMAX = frozenset({"softmax", "log_softmax", "Softmax", "LogSoftmax"})
_MOST_POINTS = 400  # of a robust slope, which compares all pairs
_RESOLUTION = 1e-6  # of 1 − cosine, from products in float32
_FLOOR = -103.0  # log of the smallest number of float32: what is lower was rounded to nothing


class View:
    """Places and trends of one examination.

    Only layers that the output depends on count. The *hidden depth* is the depth of the model without its readout (a
    last layer of weights, with or without a softmax). The *last hidden sites* are the activations, normalisations, sums
    and the like of the largest depth up to it, and whatever else the readout reads, over sums and concatenations: a
    shallow branch, or the input. Where there are several, the best decides, as it does for gradients.

    Example:
        >>> import torch
        >>> from isometer.doctor import probe
        >>> layers = [torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh()]
        >>> view = View(probe(torch.nn.Sequential(*layers, torch.nn.Linear(8, 2)), torch.eye(4, 8)))
        >>> view.hidden_depth, view.last, view.weights
        (2, (4,), (1, 3))
    """

    def __init__(self, examination: Examination) -> None:
        self.examination = examination
        self.sites = examination.sites
        self.values = examination.values
        self.depths = np.array([site.depth for site in self.sites])
        self.paths = Paths(examination)
        self.depth = max((self.sites[layer].depth for layer in self.paths.layers), default=0)

    @cached_property
    def without_gradients(self) -> View:
        """The same of the forward pass alone."""
        return View(without_gradients(self.examination))

    @cached_property
    def _on_path(self) -> list[tuple[int, Site]]:
        return [(layer, site) for layer, site in enumerate(self.sites) if layer in self.paths.layers]

    @cached_property
    def readout(self) -> bool:
        """Whether the model ends in weights."""
        # A softmax behind the weights, or pooling and dropout between them, is still part of the readout.
        final = [site for _, site in self._on_path if site.depth == self.depth and site.op not in _SOFTMAX]
        return bool(final) and all(site.kind in ("weight", "pool", "dropout") for site in final)

    @cached_property
    def hidden_depth(self) -> int:
        """Depth of the last hidden representation."""
        return self.depth - 1 if self.readout else self.depth

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """Layers of hidden representations: what activations, norms, sums and attention give."""
        return tuple(
            layer
            for layer, site in self._on_path
            if site.kind in _HIDDEN and 0 < site.depth <= self.hidden_depth and site.op not in _SOFTMAX
        )

    @cached_property
    def last(self) -> tuple[int, ...]:
        """Layers of the last hidden representations."""
        deepest = max((self.sites[layer].depth for layer in self.hidden), default=-1)
        of_that_depth = {layer for layer in self.hidden if self.sites[layer].depth == deepest}
        if not of_that_depth:
            return ()
        hidden = frozenset(self.hidden)
        return tuple(sorted(of_that_depth | self.paths.read_by_the_end(hidden.__contains__, self._of_readout)))

    def _of_readout(self, layer: int) -> bool:
        """Whether a layer lies behind the last hidden representation and is made of it alone."""
        site = self.sites[layer]
        if site.kind == "weight":
            return self.readout and site.depth == self.depth
        return site.kind in ("pool", "dropout") or site.op in _SOFTMAX

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Layers of hidden weights, embeddings left out."""
        return tuple(
            layer
            for layer, site in self._on_path
            if site.kind == "weight" and not math.isnan(site.weight_gain) and site.depth <= self.hidden_depth
        )

    @cached_property
    def activations(self) -> tuple[int, ...]:
        """Layers of hidden activation functions."""
        return tuple(layer for layer in self.hidden if self.sites[layer].kind == "activation")

    @cached_property
    def first(self) -> int:
        """The layer the signal starts from: the input, or what the embedding makes of it."""
        return next((layer for layer, site in enumerate(self.sites) if site.gram is not None), 0)

    def has(self, kind: str) -> bool:
        """Whether a site of this kind took part."""
        return any(site.kind == kind and site.op not in _SOFTMAX for site in self.sites)

    def site(self, layer: int) -> Site:
        return self.sites[layer]

    def best(self, name: str, layers: tuple[int, ...], *, smallest: bool) -> float:
        """The smallest (or largest) finite value of a metric over some layers, nan if there is none."""
        values = self.values[name][list(layers)] if layers else np.array([])
        values = values[np.isfinite(values)]
        if not values.size:
            return math.nan
        return float(values.min() if smallest else values.max())

    # --- the signal forward -------------------------------------------------------------------------------------------

    @cached_property
    def alikeness(self) -> Floats:
        """`1 − mean |cos|` of the samples, one per layer."""
        return 1.0 - self.values["mean_abs_cosine"]

    @property
    def last_difference(self) -> float:
        """Logarithm of the largest `1 − mean |cos|` among the last hidden sites."""
        values = self.alikeness[list(self.last)] if self.last else np.array([])
        values = values[np.isfinite(values)]
        return math.log(max(float(values.max()), _RESOLUTION)) if values.size else math.nan

    @property
    def last_token_difference(self) -> float:
        """The same of the tokens within a sample."""
        largest = 1.0 - self.best("token_mean_abs_cosine", self.last, smallest=True)
        return math.nan if math.isnan(largest) else math.log(max(largest, _RESOLUTION))

    def growth(self, *, smallest: bool) -> float:
        """Logarithm of the rms of the last hidden sites (the smallest or largest of them) over that of the start."""
        start, end = float(self.values["rms"][self.first]), self.best("rms", self.last, smallest=smallest)
        if math.isnan(start) or math.isnan(end) or start == 0:
            return math.nan
        return math.log(end / start) if end > 0 else _FLOOR  # all zeros: as far down as float32 goes

    # --- gradients back -----------------------------------------------------------------------------------------------

    @cached_property
    def trunk(self) -> tuple[int, ...]:
        """The layers gradients are compared over: sums where there are skip connections, else what weights give."""
        sums = tuple(layer for layer in self.hidden if self.sites[layer].kind == "add" and layer in self.paths.cuts)
        # Few sums among many weights are no trunk: a skip or two around a long chain.
        return sums if len(sums) >= 3 and 2 * len(sums) >= 0.5 * len(self.weights) else self.weights

    @cached_property
    def gradients(self) -> Floats:
        """Log-norms of the gradients along `trunk`; underflow is −103."""
        values = self.values["output_gradient_log_norm"][list(self.trunk)] if self.trunk else np.array([])
        return np.where(np.isneginf(values), _FLOOR, values)

    @cached_property
    def gradient_rate(self) -> float:
        """Growth of the gradient's log-norm per layer of depth toward the input, a robust slope."""
        # Depth counts from the input, gradients run the other way: hence the sign.
        return -robust_slope(self.depths[list(self.trunk)].astype(float), self.gradients)

    @cached_property
    def gradient_growth(self) -> float:
        """The rate times the depth that the trunk spans."""
        return self.gradient_rate * self.span

    @cached_property
    def span(self) -> int:
        depths = self.depths[list(self.trunk)]
        return int(depths.max() - depths.min()) if depths.size else 0

    @cached_property
    def log_alignment(self) -> float:
        """Logarithm of `1 − shared_gradient_cosine`, the median over hidden weights."""
        return self._log_shared(self.weights)

    @cached_property
    def log_readout_alignment(self) -> float:
        """The same of the readout's weights."""
        return self._log_shared(self.readout_weights)

    @cached_property
    def readout_weights(self) -> tuple[int, ...]:
        """Layers of the weights the model ends in."""
        last = [layer for layer, site in self._on_path if site.kind == "weight" and site.depth == self.depth]
        return tuple(last) if self.readout else ()

    def _log_shared(self, layers: tuple[int, ...]) -> float:
        values = self.values["shared_gradient_cosine"][list(layers)] if layers else np.array([])
        values = values[np.isfinite(values)]
        return math.log(max(1.0 - float(np.median(values)), _RESOLUTION)) if values.size else math.nan

    def odd_share(self, layers: tuple[int, ...]) -> float:
        """Share of the batch's squared length that its longest sample has, the smallest over some layers."""
        shares = []
        for layer in layers:
            gram = self.sites[layer].gram
            if gram is not None and gram.shape[0] > 2:  # of two samples one always has half
                squares = gram.double().diagonal()
                total = float(squares.sum())
                if math.isfinite(total) and total > 0:
                    shares.append(float(squares.max()) / total)
        return min(shares, default=math.nan)


def robust_slope(x: Floats, y: Floats) -> float:
    """Median of the slopes over all pairs of points (Theil and Sen); nan for fewer than three points or one place.

    Example:
        >>> robust_slope(np.arange(5.0), np.array([0.0, 2.0, 4.0, 100.0, 8.0]))
        2.0
    """
    good = np.isfinite(y)
    x, y = x[good], y[good]
    if x.size < 3 or np.ptp(x) == 0:
        return math.nan
    step = -(-x.size // _MOST_POINTS)  # pairs grow with the square of the points
    x, y = x[::step], y[::step]
    run, rise = x[:, None] - x, y[:, None] - y
    return float(np.median(rise[run > 0] / run[run > 0]))
