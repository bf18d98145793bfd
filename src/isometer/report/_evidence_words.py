"""What the numbers behind a finding are called, in plain words."""

from __future__ import annotations

import re

from isometer.metrics import METRICS

_WORDS = {
    "of": "measured on",
    "mean_abs_cosine_at_start": "mean |cosine| at the input",
    "mean_abs_cosine_at_end": "mean |cosine| before the readout",
    "mean_abs_cosine_of_gradients": "mean |cosine| between gradients",
    "rank_at_end": "effective rank before the readout",
    "limit_of_one_minus_cosine": "limit of 1 − |cosine|",
    "depth_of_collapse": "depth at which they collapse",
    "factor_per_layer_toward_input": "gradient norm per layer, toward the input",
    "total_factor": "total factor over the depth",
    "limit_of_total_factor": "limit of the total factor",
    "gradient_overflows_at_layer": "layer at which the gradient overflows",
    "rms_at_start": "rms at the input",
    "rms_at_end": "rms before the readout",
    "rms_before": "rms of its input",
    "typical_rms": "typical rms of the activations",
    "factor_per_layer": "rms per layer",
    "first_nonfinite_layer": "first layer with infinite or undefined values",
    "weights_finite": "weights are finite",
    "typical_mean_over_std_times_root_fan_in": "typical |mean|/std · √fan-in of the weights",
    "typical_gain": "typical gain of the weights",
    "limit_per_layer": "limit of the gain ratio per layer",
    "values_per_statistic": "values per batch statistic",
    "sum_of_inverse_squares": "Σ 1/n² over these layers",
    "limit_of_sum": "limit of the sum",
    "predicted_gradient_factor_per_layer": "predicted gradient growth per layer",
    "predicted_gradient_factor_per_layer_large_batch": "the same with a large batch",
    "measured_gradient_factor_per_layer": "measured gradient growth per layer",
    "sample": "index of the odd sample",
    "share_of_squared_length": "its share of the squared length before the readout",
    "share_at_start": "its share at the input",
    "rest_norm_ratio": "length of the others relative to it",
    "predicted_rest_norm_ratio": "the same, predicted by theory",
    "mean_angle_to_rest_deg": "mean angle between it and the others",
    "mean_angle_within_rest_deg": "mean angle among the others",
    "limit_of_share": "limit of the share",
    "largest_dead_fraction": "largest share of dead units in a layer",
    "expected_at_most": "largest share that chance explains",
    "typical_saturated_fraction": "typical share of saturated entries",
    "nonlinear_share_of_variance": "nonlinear share of the variance",
}
_RANGE = re.compile(r"depth_of_(\w+?)_(over|under)flow")
_BETTER = (("p value", "p-value"), ("abs cosine", "|cosine|"), ("log10", "log₁₀"))


def evidence_label(key: str) -> str:
    """What people call a number of a finding.

    Example:
        >>> evidence_label("rank_at_end"), evidence_label("depth_of_float16_overflow"), evidence_label("p_value")
        ('effective rank before the readout', 'depth at which float16 overflows', 'p-value')
    """
    if key in _WORDS:
        return _WORDS[key]
    if key in METRICS:
        return METRICS[key].title
    found = _RANGE.fullmatch(key)
    if found:
        return f"depth at which {found[1]} {found[2]}flows"
    text = key.replace("_", " ").removesuffix(" deg")
    for plain, better in _BETTER:
        text = text.replace(plain, better)
    return text
