"""The built-in metrics: what each reads, how it scales, and how people read it. To add one, write its entry here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from isometer.metrics import _orthogonality as orthogonality
from isometer.metrics import _volume as volume
from isometer.metrics._angles import (
    average_dot_product,
    clusters,
    mean_abs_cosine,
    mean_abs_cosine_of,
    mean_angle_deg,
    mean_angle_deg_of,
    mean_cosine,
)
from isometer.metrics._arrays import Array, namespace, svdvals
from isometer.metrics._entries import activity_sparsity, moments
from isometer.metrics._gradients import gradient_alignment, gradient_log_norm
from isometer.metrics._gram_matrix import spectrum
from isometer.metrics._metric import GAIN_RATIO, Metric
from isometer.metrics._odd_point import odd_point_statistics
from isometer.metrics._ranks import (
    condition_number,
    effective_rank,
    effective_rank_of,
    rank,
    rank_of,
    soft_rank,
    soft_rank_of,
    stable_rank,
    stable_rank_of,
)
from isometer.metrics._wasserstein import wasserstein_to_isotropic


def _part(function: Callable[..., Any], field: str) -> Callable[..., Array]:
    """One of several statistics of a Gram matrix."""

    def of(representation: Array | None = None, *, gram: Array | None = None) -> Array:
        return getattr(function(representation, gram=gram), field)

    return of


def _top_share(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    values = spectrum(representation, gram=gram)
    xp = namespace(values)
    total = values.sum(-1)
    return xp.where(total > 0, values[..., 0] / xp.where(total > 0, total, 1.0), 1.0)


def _singular_value(which: int) -> Callable[[Array], Array]:
    def of(representation: Array) -> Array:
        values = svdvals(representation)
        if which < 0 and representation.shape[-2] > representation.shape[-1]:
            return namespace(values).zeros_like(values[..., 0])
        return values[..., which]

    return of


# of simulations and predictions alone: the doctor does not measure these unless asked to
_more = partial(Metric, probed=False, axis="linear", group="Signal")
_site = partial(Metric, function=None, reads="site")


def _headroom(dtype: str) -> list[Metric]:
    suffix, what = (f"_{dtype}", dtype) if dtype else ("", "its own dtype")
    ends = (
        ("overflow", f"Factors of ten from the largest entry to the largest number of {what}."),
        ("underflow", f"Factors of ten from the smallest normal number of {what} to the rms."),
    )
    return [
        _site(
            f"{end}_headroom{suffix}",
            scaling="logarithmic",
            title=f"room to {end} ({what})",
            unit="decades",
            axis="linear",
            sentence=sentence,
            group="Scale",
            reference=0.0,
        )
        for end, sentence in ends
    ]


def _of_sequence(name: str, sentence: str, *, low: float, high: float | None = None) -> Metric:
    """A number that predictions and simulations of networks with attention have, see `_sequences.py`."""
    return Metric(
        name,
        None,
        "sequence",
        axis="linear",
        sentence=sentence,
        group="Tokens",
        lower=low,
        upper=high,
        probed=False,
    )


BUILT_IN = (
    Metric(
        "orthogonality_gap",
        orthogonality.orthogonality_gap,
        "gram",
        sentence="0: samples are orthogonal; near 1: all are alike. Distance of the normalised Gram matrix from the "
        "identity's.",
        group="Signal",
        lower=0.0,
        upper=1.0,
        shared=lambda s: orthogonality.gap_of(s.scaled),
    ),
    _more(
        "lyapunov_gap",
        orthogonality.lyapunov_gap,
        "gram",
        axis="auto",
        sentence="How far the smallest eigenvalue is below its share 1/n of the trace.",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "spectral_variance",
        orthogonality.spectral_variance,
        "gram",
        sentence="Variance of the eigenvalues of the Gram matrix, scaled to mean 1.",
        lower=0.0,
    ),
    Metric(
        "isometry_gap",
        volume.isometry_gap,
        "gram",
        sentence="0: orthogonal samples of one length; ∞: linearly dependent ones.",
        group="Signal",
        lower=0.0,
        shared=lambda s: volume.gap_of(s.batch),
    ),
    _more(
        "isometry",
        volume.isometry,
        "gram",
        sentence="Geometric over arithmetic mean of the Gram matrix's eigenvalues; 1: orthogonal, of one length.",
        lower=0.0,
        upper=1.0,
    ),
    Metric(
        "stable_rank",
        stable_rank,
        "gram",
        axis="linear",
        sentence="Directions that the batch uses: squared sum over sum of squares of its eigenvalues.",
        group="Signal",
        lower=0.0,
        shared=lambda s: stable_rank_of(s.scaled),
    ),
    _more(
        "soft_rank",
        soft_rank,
        "products",
        "absolute",
        sentence="Directions with a second moment of at least ½.",
        lower=0.0,
        shared=lambda s: soft_rank_of(s.scaled, s.scale),
    ),
    _more(
        "rank",
        rank,
        "gram",
        title="numerical rank",
        heading="rank",
        sentence="Directions that the batch uses at all: singular values above rounding.",
        lower=0.0,
        shared=lambda s: rank_of(s.scaled),
    ),
    Metric(
        "effective_rank",
        effective_rank,
        "gram",
        axis="linear",
        sentence="Directions that the batch uses: exp of the entropy of its spectrum.",
        group="Signal",
        lower=0.0,
        shared=lambda s: effective_rank_of(s.scaled),
    ),
    _more(
        "condition_number",
        condition_number,
        "gram",
        sentence="Largest over smallest eigenvalue of the Gram matrix; ∞: linearly dependent samples.",
        lower=1.0,
    ),
    _more(
        "mean_cosine",
        mean_cosine,
        "gram",
        title="mean cosine between samples",
        heading="mean cos",
        sentence="1: all samples point in the same direction; 0: orthogonal on average.",
        lower=-1.0,
        upper=1.0,
    ),
    Metric(
        "mean_abs_cosine",
        mean_abs_cosine,
        "gram",
        title="mean |cos| between samples",
        heading="mean |cos|",
        axis="linear",
        sentence="1: all samples point in the same direction and cannot be distinguished.",
        group="Signal",
        lower=0.0,
        upper=1.0,
        shared=lambda s: mean_abs_cosine_of(s.scaled, *s.cosines),
    ),
    Metric(
        "mean_angle_deg",
        mean_angle_deg,
        "gram",
        title="mean angle between samples",
        heading="mean angle (°)",
        unit="°",
        axis="linear",
        sentence="90°: orthogonal; 0°: collapsed.",
        group="Signal",
        lower=0.0,
        upper=180.0,
        shared=lambda s: mean_angle_deg_of(s.scaled, *s.cosines),
    ),
    _more(
        "average_dot_product",
        average_dot_product,
        "gram",
        sentence="Mean inner product of different samples over the mean squared length.",
        lower=-1.0,
        upper=1.0,
    ),
    _more(
        "clusters",
        clusters,
        "gram",
        title="clusters of directions",
        heading="clusters",
        sentence="Groups of samples within a degree of each other.",
        lower=1.0,
    ),
    _more(
        "wasserstein_to_isotropic",
        wasserstein_to_isotropic,
        "gram",
        title="Wasserstein distance to isotropic",
        heading="W₂ to isotropic",
        sentence="Distance of a Gaussian with the batch's normalised Gram matrix to the isotropic one.",
        lower=0.0,
    ),
    _more(
        "odd_norm_ratio",
        _part(odd_point_statistics, "rest_norm_ratio"),
        "gram",
        title="mean length of the others over the longest sample",
        heading="others/longest",
        sentence="Small: one sample stands out.",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "odd_second_norm_ratio",
        _part(odd_point_statistics, "second_norm_ratio"),
        "gram",
        title="second longest over the longest sample",
        heading="second/longest",
        sentence="Small: one sample stands out.",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "odd_angle_deg",
        _part(odd_point_statistics, "angle_to_rest_mean"),
        "gram",
        title="mean angle from the longest sample to the others",
        heading="angle to others (°)",
        unit="°",
        sentence="90°: the odd point of recentring and ReLU.",
        lower=0.0,
        upper=180.0,
    ),
    _more(
        "cluster_angle_deg",
        _part(odd_point_statistics, "angle_within_rest_mean"),
        "gram",
        title="mean angle among the others",
        heading="angle of others (°)",
        unit="°",
        sentence="0°: all samples but the longest are parallel.",
        lower=0.0,
        upper=180.0,
    ),
    _more(
        "top_eigenvalue_share",
        _top_share,
        "gram",
        title="share of the leading direction",
        heading="top share",
        sentence="Largest eigenvalue of the Gram matrix over its trace; 1: all samples on one line.",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "smallest_singular_value",
        _singular_value(-1),
        "products",
        "linear",
        heading="smallest σ",
        sentence="Of the representation; 0: linearly dependent samples.",
        lower=0.0,
    ),
    _more(
        "largest_singular_value",
        _singular_value(0),
        "products",
        "linear",
        heading="largest σ",
        sentence="Of the representation: its spectral norm.",
        lower=0.0,
    ),
    _more(
        "log_norm",
        gradient_log_norm,
        "products",
        "logarithmic",
        title="logarithm of the norm of the representation",
        heading="log ‖H‖",
        sentence="Natural logarithm of the Frobenius norm.",
        group="Scale",
    ),
    _more(
        "activity_sparsity",
        lambda h: activity_sparsity(h).sparsity.mean(-1),
        "representation",
        sentence="0: neurons respond to all samples alike; 1: each to one sample only.",
        group="Units",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "active_fraction",
        lambda h: activity_sparsity(h).active_fraction.mean(-1),
        "representation",
        sentence="Share of the samples that a neuron responds to.",
        group="Units",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "widely_active_share",
        lambda h: activity_sparsity(h).widely_active_share,
        "representation",
        sentence="Share of the neurons that respond to more than 80 % of the samples.",
        group="Units",
        lower=0.0,
        upper=1.0,
    ),
    _more(
        "second_moment",
        lambda h: moments(h).second_moment,
        "representation",
        "quadratic",
        sentence="Mean square of the entries.",
        group="Scale",
        lower=0.0,
    ),
    _more(
        "kurtosis",
        lambda h: moments(h).kurtosis,
        "representation",
        sentence="Of the entries; 3 for Gaussian ones.",
        group="Scale",
        lower=1.0,
    ),
    _site(
        "rms",
        scaling="linear",
        title="rms of entries",
        axis="log",
        sentence="Root mean square of the layer's output.",
        group="Scale",
        lower=0.0,
    ),
    _site(
        "max_abs",
        scaling="linear",
        title="largest |entry|",
        axis="log",
        sentence="The largest absolute value of the output.",
        group="Scale",
        lower=0.0,
    ),
    *_headroom(""),
    *_headroom("float16"),
    *_headroom("bfloat16"),
    _site(
        "output_gradient_log_norm",
        scaling="logarithmic",
        title="‖∂loss/∂output‖",
        unit="log₁₀",
        axis="linear",
        sentence="Norm of the loss's gradient with respect to the layer's output.",
        group="Gradients",
    ),
    Metric(
        "gradient_log_norm",
        gradient_log_norm,
        "gradient",
        "logarithmic",
        title="‖∂loss/∂weights‖",
        heading="log ‖gradient‖",
        unit="log₁₀",
        axis="linear",
        sentence="Norm of the gradient with respect to the weights (layer 0: the input).",
        group="Gradients",
    ),
    Metric(
        "gradient_alignment",
        _part(gradient_alignment, "mean_abs_cosine"),
        "gradient",
        title="alignment of samples' gradients",
        heading="gradient alignment",
        axis="linear",
        sentence="Mean |cos| between the samples' contributions; 1: every sample needs the same step.",
        group="Gradients",
        lower=0.0,
        upper=1.0,
    ),
    _site(
        "gradient_top_share",
        title="share of the leading gradient direction",
        unit="%",
        axis="linear",
        sentence="Of the samples' squared gradient norm.",
        group="Gradients",
        lower=0.0,
        upper=1.0,
    ),
    _site(
        "shared_gradient_cosine",
        title="similarity of gradients of samples with one error",
        axis="linear",
        sentence="Mean |cos| over samples with parallel gradients at the output; 1: the network does not "
        "distinguish them.",
        group="Gradients",
        lower=0.0,
        upper=1.0,
    ),
    _site(
        "weight_gain",
        scaling="linear",
        title="gain of the weights",
        sentence="Standard deviation times √fan-in, beside the gain that preserves the scale.",
        group="Weights",
        lower=0.0,
        companion="principled_gain",
    ),
    _site(
        GAIN_RATIO,
        scaling="linear",
        title="gain / principled gain",
        sentence="1: the weights preserve the scale.",
        group="Weights",
        lower=0.0,
        reference=1.0,
    ),
    _site(
        "principled_gain",
        title="principled gain",
        sentence="The gain that preserves the scale under the next activation.",
        group="Weights",
        lower=0.0,
    ),
    _site(
        "weight_asymmetry",
        title="asymmetry of the weights",
        axis="linear",
        sentence="Mean over standard deviation, times √fan-in.",
        group="Weights",
        reference=0.0,
    ),
    _site(
        "weight_spectral_norm",
        scaling="linear",
        title="spectral norm of the weights",
        sentence="The largest factor by which the weights stretch a direction.",
        group="Weights",
        lower=0.0,
    ),
    _site(
        "weight_isometry_gap",
        title="isometry gap of the weights",
        sentence="0: the weights stretch all directions alike; ∞: they lose one.",
        group="Weights",
        lower=0.0,
    ),
    _site(
        "dead_fraction",
        title="dead units",
        unit="%",
        axis="linear",
        sentence="Units that are zero on the whole batch.",
        group="Units",
        lower=0.0,
        upper=1.0,
    ),
    _site(
        "saturated_fraction",
        title="saturated units",
        scaling="absolute",
        unit="%",
        axis="linear",
        sentence="Entries where the activation is flat.",
        group="Units",
        lower=0.0,
        upper=1.0,
    ),
    Metric(
        "token_orthogonality_gap",
        orthogonality.orthogonality_gap,
        "tokens",
        title="orthogonality gap of tokens",
        sentence="Within a sample.",
        group="Tokens",
        lower=0.0,
        upper=1.0,
        shared=lambda s: orthogonality.gap_of(s.scaled),
    ),
    Metric(
        "token_stable_rank",
        stable_rank,
        "tokens",
        title="stable rank of tokens",
        axis="linear",
        sentence="Within a sample.",
        group="Tokens",
        lower=0.0,
        shared=lambda s: stable_rank_of(s.scaled),
    ),
    Metric(
        "token_mean_abs_cosine",
        mean_abs_cosine,
        "tokens",
        title="mean |cos| between tokens",
        axis="linear",
        sentence="Within a sample; 1: all tokens point in the same direction.",
        group="Tokens",
        lower=0.0,
        upper=1.0,
        shared=lambda s: mean_abs_cosine_of(s.scaled, *s.cosines),
    ),
    _of_sequence("token_cosine", "Of two tokens of a sample; 1: all tokens are alike.", low=-1.0, high=1.0),
    _of_sequence("sample_cosine", "Of two samples' tokens at the same position.", low=-1.0, high=1.0),
    _of_sequence("attention_entropy", "Of a query's attention, in nats.", low=0.0),
    _of_sequence("attention_participation", "How many tokens a query reads: 1/E Σ A².", low=1.0),
)
