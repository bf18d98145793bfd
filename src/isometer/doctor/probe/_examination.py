"""What a probe found: numbers per site, in the format that predicted and simulated trajectories have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.doctor.probe._loss import LossReading
from isometer.doctor.probe._readings import GradientReading
from isometer.doctor.probe._sites import Site, principled_gain
from isometer.doctor.probe._trace import TraceStep
from isometer.doctor.probe._unseen import Unseen
from isometer.metrics import METRICS, Metric, names
from isometer.metrics._catalogue import probed
from isometer.metrics._several import gradient_alignment_unchecked, several
from isometer.serialize import json_data

if TYPE_CHECKING:
    import xarray  # takes as long to import as a small model to examine

Floats = NDArray[np.float64]
_DTYPES = ("float16", "bfloat16")
_ALIGNMENT = "gradient_alignment"
_BLOCK = 1 << 18  # entries of Gram matrices of tokens at a time, so that intermediate results stay in the cache
_PARALLEL = 0.99  # |cosine| of gradients by the output from which on two samples ask for the same change


@dataclass(frozen=True, eq=False, repr=False)
class Examination:
    """Numbers of every site of a model on one batch, in the order of execution; layer 0 is the input.

    Example:
        >>> import torch
        >>> from isometer.doctor import probe
        >>> found = probe(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()), torch.eye(3, 4))
        >>> [site.op for site in found.sites]
        ['input', 'Linear', 'ReLU']

    Attributes:
        sites: what was read, one per site.
        values: one array `(layers,)` per quantity, nan where it is not defined:

            - every probed metric of `isometer.metrics.METRICS`, also those registered at run time;
            - of the samples' Gram matrix `orthogonality_gap`, `isometry_gap`, `stable_rank`, `effective_rank`,
              `mean_abs_cosine`, `mean_angle_deg`; of tokens within a sample, averaged over a few samples,
              `token_orthogonality_gap`, `token_stable_rank`, `token_mean_abs_cosine` and `token_cosine`, the mean
              with its sign; `sample_cosine`, of two samples' tokens at the same position; `attention_entropy` in nats;
            - `rms`, `max_abs`; `overflow_headroom` (factors of ten from the largest entry to the largest number) and
              `underflow_headroom` (from the smallest normal number to the rms) of the site's own dtype, and the same
              with `_float16` and `_bfloat16`;
            - `dead_fraction` (units that are zero on the whole batch; channels, for images), `saturated_fraction`;
            - `weight_gain` (std · √fan_in) beside the `principled_gain` of the activation that follows, 1 where none
              does; `weight_asymmetry` (mean/std · √fan_in); with `spectra=True` `weight_spectral_norm`,
              `weight_isometry_gap`;
            - `output_gradient_log_norm`, of the loss with respect to the site's output; `gradient_log_norm`, with
              respect to its weights (at layer 0, to the input), natural logarithms; `gradient_alignment` and
              `gradient_top_share` of the samples' contributions to the weights' gradient; `shared_gradient_cosine`, the
              mean |cosine| over the pairs of samples whose gradients with respect to the model's output are parallel: 1
              if the network does not distinguish samples.
        nonfinite_layer: the first layer with a NaN or infinite activation, `None` if there is none.
        nonfinite_gradient_layer: the layer at which the backward pass of the unscaled loss first met one, likewise.
        loss_exponent: the loss was multiplied by `2^loss_exponent` to reach the layers below that one.
        samples: samples in the batch.
        seed: seed of cotangents, sketches, and the generators while the model ran.
        trace: every operation on the way from the input, including those that are not sites, and what each reads.
        outputs: the steps of the trace that made what the model returns.
        unseen: parts of the model that were not examined, and why.
        loss: its value, and the size of its gradient where the model ends.
        early: representations before and after the first weights, by step of the trace: a prediction starts from them.
            For sequences they belong to the samples that token metrics read.
    """

    sites: tuple[Site, ...]
    values: dict[str, Floats]
    nonfinite_layer: int | None
    nonfinite_gradient_layer: int | None
    loss_exponent: int
    samples: int
    seed: int
    trace: tuple[TraceStep, ...] = ()
    outputs: tuple[int, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    loss: LossReading = field(default_factory=LossReading)
    early: Mapping[int, torch.Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        lost = "" if self.nonfinite_layer is None else f", not finite from layer {self.nonfinite_layer} on"
        return f"Examination({len(self)} sites, {self.samples} samples{lost}; to_dataset() has every number)"

    @property
    def names(self) -> tuple[str, ...]:
        """Module paths, one per layer."""
        return tuple(site.name for site in self.sites)

    def gram(self, layer: int) -> NDArray[Any] | None:
        """The Gram matrix `H Hᵀ / d` of the (at most 64) samples at a layer, `None` where there is none."""
        site = self.sites[layer]
        if site.gram is None:
            return None
        scale = 2.0**site.exponent
        # One factor at a time: the square of the scale may overflow where the product does not.
        gram: NDArray[Any] = site.gram.double().cpu().numpy() / site.features * scale * scale
        return gram

    def to_dataset(self) -> xarray.Dataset:
        """The trajectory: dimension `layer`, coordinates `name`, `op`, `site`, `depth`, `kind`, `call`, `activation`.

        `site` is `pre-activation` for what an activation reads, else `output`; `call` counts the calls of one operation
        in one module; `alignment` says whether gradient alignment is `exact` or a `sketch`.
        """
        import xarray

        from isometer.trajectory import versions

        coordinates: dict[str, Any] = {
            "layer": np.arange(len(self)),
            "depth": ("layer", np.array([site.depth for site in self.sites])),
            "call": ("layer", np.array([site.call for site in self.sites])),
        }
        texts = {
            "name": [site.name for site in self.sites],
            "op": [site.op for site in self.sites],
            "site": [_place(site) for site in self.sites],
            "kind": [site.kind for site in self.sites],
            "activation": [site.activation or "" for site in self.sites],
            "alignment": [site.alignment for site in self.sites],
            "dtype": [site.dtype for site in self.sites],
        }
        coordinates.update({name: ("layer", np.array(text, dtype=object)) for name, text in texts.items()})
        attributes = {"samples": self.samples, "seed": self.seed, "versions": versions(), **self._events()}
        data = {name: ("layer", values) for name, values in self.values.items()}
        return xarray.Dataset(data, coords=coordinates, attrs=attributes)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the Gram matrices, ready for JSON: nan is `None`, infinities are `"inf"` and `"-inf"`."""
        rows = []
        for layer, site in enumerate(self.sites):
            row: dict[str, Any] = {
                "layer": layer,
                "name": site.name,
                "op": site.op,
                "site": _place(site),
                "kind": site.kind,
                "depth": site.depth,
                "call": site.call,
                "where": site.where or None,
                "shape": list(site.shape),
                "dtype": site.dtype,
                "activation": site.activation,
                "normalized": site.normalized,
                "alignment": site.alignment or None,
                "attention": None if site.attention is None else json_data(asdict(site.attention)),
            }
            row["metrics"] = json_data({name: values[layer] for name, values in self.values.items()})
            rows.append(row)
        missed = [{"name": one.name, "why": one.why} for one in self.unseen]
        end = {"loss": self.loss.to_dict(), "unseen": missed, "layers": rows}
        return {"samples": self.samples, "seed": self.seed, **self._events(), **end}

    def _events(self) -> dict[str, int]:
        """What is not finite and where; −1 for nowhere, since attributes of netCDF files have no `None`."""
        first = -1 if self.nonfinite_layer is None else self.nonfinite_layer
        gradient = -1 if self.nonfinite_gradient_layer is None else self.nonfinite_gradient_layer
        return {
            "nonfinite_layer": first,
            "nonfinite_gradient_layer": gradient,
            "loss_exponent": self.loss_exponent,
        }


def _place(site: Site) -> str:
    return "pre-activation" if site.pre_activation else "output"


_SIZES = {"rms": "rms", "max_abs": "largest"}
_OF_SITES = {
    "dead_fraction": "dead",
    "saturated_fraction": "saturated",
    "weight_gain": "weight_gain",
    "weight_asymmetry": "weight_asymmetry",
    "weight_spectral_norm": "weight_spectral_norm",
    "weight_isometry_gap": "weight_isometry_gap",
    "output_gradient_log_norm": "output_log_norm",
    "gradient_log_norm": "weight_log_norm",
    "attention_entropy": "attention_entropy",
}


class LazyColumns(dict[str, Floats]):
    """What `tabulate` gives, a column at a time: each is calculated when it is first asked for by name.

    Example:
        >>> from isometer.doctor.probe._readings import ValueReading
        >>> columns = LazyColumns([Site("input", "input", "input", 0, value=ValueReading(rms=2.0))], None)
        >>> len(columns), columns["rms"].tolist(), len(columns)
        (0, [2.0], 1)
    """

    def __init__(self, sites: Sequence[Site], cotangents: torch.Tensor | None) -> None:
        super().__init__()
        self._sites, self._cotangents = sites, cotangents

    def __missing__(self, name: str) -> Floats:
        found = tabulate(self._sites, self._cotangents, only=name)
        if name not in found:
            raise KeyError(name)
        self[name] = found[name]
        return found[name]


def without_gradients(examination: Examination) -> Examination:
    """The same with nan for everything that was read in the backward pass.

    Example:
        >>> from isometer.doctor import probe
        >>> blank = without_gradients(probe(torch.nn.Linear(2, 2), torch.eye(2)))
        >>> [bool(np.isnan(blank.values[name]).all()) for name in ("rms", "gradient_log_norm")]
        [False, True]
    """
    sites = tuple(replace(site, gradient=GradientReading()) for site in examination.sites)
    nothing = np.full(len(sites), math.nan)
    blank = dict.fromkeys(("output_gradient_log_norm", "gradient_log_norm", *_of_gradients()), nothing)
    return replace(
        examination,
        sites=sites,
        values={**examination.values, **blank},
        nonfinite_gradient_layer=None,
        loss=replace(examination.loss, gradient_norms=()),
    )


def tabulate(
    sites: Sequence[Site], cotangents: torch.Tensor | None = None, only: str | None = None
) -> dict[str, Floats]:
    """Every quantity of every site; metrics are evaluated for all Gram matrices of a size at a time.

    Args:
        sites: what was read.
        cotangents: inner products of the samples' gradients by the output of the model.
        only: one quantity; with what is calculated along with it.
    """

    def wanted(*names: str) -> bool:
        return only is None or only in names

    of_samples, of_tokens = ([one for one in probed(kind) if wanted(one.name)] for kind in ("gram", "tokens"))
    values = {one.name: np.full(len(sites), math.nan) for one in (*of_samples, *of_tokens)}
    invariant = [one for one in of_samples if one.scaling == "invariant"]
    if invariant:
        _evaluate(values, [(i, site.gram) for i, site in enumerate(sites) if site.gram is not None], invariant)
    if of_tokens or wanted("token_cosine"):
        values["token_cosine"] = np.full(len(sites), math.nan)
        tokens = [(i, site.token_gram) for i, site in enumerate(sites) if site.token_gram is not None]
        _evaluate(values, tokens, of_tokens, cosine="token_cosine")
    if wanted("sample_cosine"):
        values["sample_cosine"] = np.full(len(sites), math.nan)
        across = [(i, site.position_gram) for i, site in enumerate(sites) if site.position_gram is not None]
        _evaluate(values, across, [], cosine="sample_cosine")
    for one in of_samples:
        if one.scaling != "invariant":
            values[one.name][:] = [_at_own_scale(one, site) for site in sites]
    for one in probed("products", "representation"):
        if wanted(one.name):
            values[one.name] = np.array([site.readings.get(one.name, math.nan) for site in sites])
    values.update({name: _read(sites, field) for name, field in _SIZES.items() if wanted(name)})
    if only is None or "headroom" in only:
        values.update(_headrooms(sites))
    values.update({name: _read(sites, field) for name, field in _OF_SITES.items() if wanted(name)})
    if wanted("principled_gain"):
        values["principled_gain"] = np.array([_principled(site) for site in sites])
    if wanted(*_of_gradients()):
        values.update(_alignments(sites, cotangents))
    return values


def _read(sites: Sequence[Site], field: str) -> Floats:
    return np.array([float(getattr(site, field)) for site in sites])


def _headrooms(sites: Sequence[Site]) -> dict[str, Floats]:
    rms, largest = _read(sites, "rms"), _read(sites, "largest")
    ranges: list[tuple[str, Floats, Floats]] = [_range("", [site.dtype for site in sites])]
    ranges += [_range(f"_{name}", [name] * len(sites)) for name in _DTYPES]
    values = {}
    # Differences of logarithms: the quotients could leave the range of float64.
    for suffix, top, bottom in ranges:
        values[f"overflow_headroom{suffix}"] = _log10(top) - _log10(largest)
        values[f"underflow_headroom{suffix}"] = _log10(rms) - _log10(bottom)
    return values


def _log10(values: Floats) -> Floats:
    """−inf at 0, without `np.errstate`, which an interruption as it begins leaves behind."""
    return np.log10(values, out=np.full_like(values, -np.inf), where=values != 0)


def _mean_cosines(grams: torch.Tensor) -> torch.Tensor:
    """Mean cosines of two different vectors of Gram matrices `(…, k, k)`; a vector of no length has the cosine 0."""
    squares = grams.diagonal(dim1=-2, dim2=-1)
    inverse = torch.where(squares > 0, squares, torch.inf).rsqrt()
    size = grams.shape[-1]
    # The sum over all pairs as one product per matrix, without the matrix of cosines.
    total = ((grams @ inverse[..., None])[..., 0] * inverse).double().sum(-1)
    return (total - (squares > 0).sum(-1)) / (size * (size - 1))


def _of_gradients() -> tuple[str, ...]:
    """What is read off the inner products of the samples' gradients."""
    others = [name for name in names("gradient") if name not in ("gradient_log_norm", _ALIGNMENT)]
    return (_ALIGNMENT, *others, "gradient_top_share", "shared_gradient_cosine")


def _alignments(sites: Sequence[Site], cotangents: torch.Tensor | None) -> dict[str, Floats]:
    values = {name: np.full(len(sites), math.nan) for name in _of_gradients()}
    others = [METRICS[name] for name in names("gradient") if name not in ("gradient_log_norm", _ALIGNMENT)]
    parallel = _parallel(cotangents)
    gradients = [(i, site.gradient_gram) for i, site in enumerate(sites) if site.gradient_gram is not None]
    for layers, grams in _stacks(gradients):
        if grams.shape[-1] > 1:
            cosine, share = gradient_alignment_unchecked(grams)
            values[_ALIGNMENT][layers] = cosine.cpu().numpy()
            values["gradient_top_share"][layers] = share.cpu().numpy()
            for one in others:
                values[one.name][layers] = one.of_gram(grams).to(torch.float64).cpu().numpy()
            if parallel is not None and parallel.shape == grams.shape[1:]:
                cosines = _cosines(grams).cpu().numpy()[:, parallel]
                values["shared_gradient_cosine"][layers] = np.abs(cosines).mean(axis=1)
    return values


def _parallel(cotangents: torch.Tensor | None) -> NDArray[np.bool_] | None:
    """Pairs of samples whose gradients by the output are parallel, `None` if there are none."""
    if cotangents is None or cotangents.shape[0] < 2:
        return None
    pairs: NDArray[np.bool_] = np.triu(np.abs(_cosines(cotangents).cpu().numpy()) > _PARALLEL, 1)
    return pairs if pairs.any() else None


def _cosines(grams: torch.Tensor) -> torch.Tensor:
    """Gram matrices with a diagonal of ones; zero vectors have cosine 0."""
    lengths = grams.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(lengths > 0, 1.0 / lengths, 0.0)
    return grams * inverse[..., :, None] * inverse[..., None, :]


def _range(suffix: str, dtypes: Sequence[str]) -> tuple[str, Floats, Floats]:
    """Largest and smallest normal number of each dtype, nan for those which are not floating point."""
    known = {dtype: torch.finfo(getattr(torch, dtype)) for dtype in set(dtypes) if "float" in dtype}
    top = np.array([known[dtype].max if dtype in known else math.nan for dtype in dtypes])
    bottom = np.array([known[dtype].tiny if dtype in known else math.nan for dtype in dtypes])
    return suffix, top, bottom


def _principled(site: Site) -> float:
    if site.kind != "weight" or math.isnan(site.weight_gain):
        return math.nan
    if not site.followed:
        return 1.0
    return math.nan if site.activation is None else principled_gain(site.activation)


def _stacks(grams: Sequence[tuple[int, torch.Tensor]]) -> list[tuple[list[int], torch.Tensor]]:
    """Finite Gram matrices of one shape, precision and device together, with the layers they belong to."""
    groups: dict[Any, list[tuple[int, torch.Tensor]]] = {}
    for layer, gram in grams:
        groups.setdefault((gram.shape, gram.dtype, gram.device), []).append((layer, gram))
    stacks = []
    for group in groups.values():
        stacked = torch.stack([gram for _, gram in group])
        # Rounding may differ between the triangles, and eigenvalue routines read one of them.
        stacked = (stacked + stacked.mT) / 2
        finite = stacked.flatten(1).isfinite().all(1)
        layers = [layer for (layer, _), good in zip(group, finite.tolist(), strict=True) if good]
        if layers:
            stacks.append((layers, stacked if len(layers) == len(group) else stacked[finite]))
    return stacks


def _at_own_scale(metric: Metric, site: Site) -> float:
    """A metric of the Gram matrix `H Hᵀ / d` that depends on its scale."""
    if site.gram is None or site.gram.shape[-1] < 2 or not bool(site.gram.isfinite().all()):
        return math.nan
    gram = (site.gram + site.gram.mT).double() / (2 * site.features)
    # Entries were divided by 2^exponent, hence products by 4^exponent.
    if metric.scaling == "absolute":
        return float(metric.of_gram(gram * 4.0**site.exponent))
    return float(metric.at_scale(float(metric.of_gram(gram)), site.exponent * math.log(2.0)))


def _evaluate(
    values: dict[str, Floats],
    grams: Sequence[tuple[int, torch.Tensor]],
    metrics: Sequence[Metric],
    *,
    cosine: str = "",
) -> None:
    for layers, stacked in _stacks(grams):
        if stacked.shape[-1] < 2:  # nothing to compare
            continue
        if cosine:
            values[cosine][layers] = _mean_cosines(stacked).mean(-1).cpu().numpy()
        if not metrics:
            continue
        block = max(1, _BLOCK // stacked[0].numel()) if stacked.dim() > 3 else len(layers)
        for start in range(0, len(layers), block):
            for name, numbers in several(stacked[start : start + block], metrics).items():
                numbers = numbers.to(torch.float64)
                numbers = numbers.flatten(1).mean(1) if numbers.dim() > 1 else numbers
                values[name][layers[start : start + block]] = numbers.cpu().numpy()
