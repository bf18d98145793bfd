"""Transformers with exchangeable tokens at infinite width, by theory; and pure attention with many digits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

_LOW = -1e4  # stands for the logarithm of zero


def _spec(configuration: Mapping[str, Any]) -> Any:
    from isometer.spec import Spec

    return Spec(str(configuration["network"]).format(**configuration))


def token_gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """log(1 − cosine of two tokens) and the entropy by block: `network`, with other keys in braces.

    Example:
        >>> c = {"network": "gpt(blocks=2, tokens=4, hidden=0, norm='none', skip={skip}, causal=False)", "skip": 0.0}
        >>> token_gap_cell(c, 0)["log_gap"].values.round(3)
        array([ 0.   , -1.016, -6.288])
    """
    from isometer.theory.transformers import token_path

    path = token_path(_spec(configuration))
    with np.errstate(divide="ignore"):
        gap = np.maximum(np.log(path.token_gap[:, 0]), _LOW)
    return xarray.Dataset({"log_gap": ("block", gap), "entropy": ("block", path.attention_entropy[:, 0])})


def last_block_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Tokens behind the last block, and gradients from there to the input and to the last block's weights.

    `network` as for `token_gap_cell`. With `open_end` the norm behind the blocks is left out.

    Example:
        >>> c = {"network": "gpt(blocks={blocks}, tokens=4, norm='post', causal=False)", "blocks": 2}
        >>> sorted(last_block_cell(c, 0).data_vars)
        ['cosine', 'log_jacobian', 'log_query', 'log_value', 'rms']
    """
    from isometer.spec import Composition
    from isometer.theory.transformers import token_path

    spec = _spec(configuration)
    if configuration.get("open_end"):
        spec = Composition(spec.composition[:-1], spec.shape)
    path = token_path(spec, backward=True)
    assert path.log_jacobian is not None
    assert path.weights is not None
    found = next(kinds for kinds in ({one.kind: one for one in row} for row in path.weights[::-1]) if "query" in kinds)
    return xarray.Dataset(
        {
            "cosine": path.token_cosine[-1, 0],
            "rms": path.rms[-1, 0],
            "log_jacobian": path.log_jacobian[0, 0],
            "log_query": max(float(found["query"].log[0]), _LOW),
            "log_value": max(float(found["value"].log[0]), _LOW),
        }
    )


def exponents_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Both exponents of a block, and the cosine of tokens in the steady state; nan where no state is steady.

    Example:
        >>> c = {"network": "gpt(tokens=8, norm='post', activation='relu', mlp_gain={gain}, causal=False)", "gain": 1.0}
        >>> bool(exponents_cell(c, 0)["angle"] < 0)
        True
    """
    from isometer.theory.transformers import exponents

    found = exponents(_spec(configuration))
    values = (math.nan,) * 3 if found is None else (found.angle, found.gradient, found.token_cosine)
    return xarray.Dataset(dict(zip(("angle", "gradient", "cosine"), values, strict=True)))


def row_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Softmax of `tokens` Gaussian scores of variance β² log T (`strength`): entropy over log T and E Σ A².

    Example:
        >>> row_cell({"strength": 0.0, "tokens": 16}, 0)["share"].item()
        1.0
    """
    from isometer.theory.attention import row_moments

    tokens = int(configuration["tokens"])
    found = row_moments(float(configuration["strength"]) * math.sqrt(math.log(tokens)), tokens)
    return xarray.Dataset({"share": found.entropy / math.log(tokens), "participation": found.participation})


def printed_bound_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Residuals of pure attention against the bound of Dong et al. 2021, with `digits` digits, in log₁₀ by layer.

    `heads` heads of `tokens` tokens and `width` features, scores over √width; weights are Gaussian of variance
    `size`²/width. The norm is √(‖·‖₁‖·‖∞), the residual is that from the mean of the rows, β the largest product of
    norms of any head. The bound is (4Hβ/√d)^((3^L − 1)/2) ‖res(X)‖^(3^L).

    Example:
        >>> c = {"tokens": 3, "width": 3, "heads": 1, "layers": 1, "size": 0.3, "digits": 40}
        >>> found = printed_bound_cell(c, 0)
        >>> bool(found["residual"][1] < found["bound"][1])
        True
    """
    import mpmath

    c = configuration
    tokens, width, heads, layers = (int(c[name]) for name in ("tokens", "width", "heads", "layers"))
    rng = np.random.default_rng(seed)
    with mpmath.workdps(int(c["digits"])):
        x = mpmath.matrix(rng.standard_normal((tokens, width)).tolist()) / mpmath.sqrt(width)
        start = _norm(_centred(x))
        residuals, bounds, largest = [start], [start], mpmath.mpf(0)
        for layer in range(1, layers + 1):
            total = mpmath.zeros(tokens, width)
            for _ in range(heads):
                scores, values = (
                    mpmath.matrix((c["size"] / math.sqrt(width) * rng.standard_normal((width, width))).tolist())
                    for _ in range(2)
                )
                largest = max(largest, _norm_1(scores) * _norm(values))
                total += _softmax(x * scores * x.T / mpmath.sqrt(width)) * x * values
            x = total
            residuals.append(_norm(_centred(x)))
            rate = 4 * heads * largest / mpmath.sqrt(width)
            power = 3**layer
            bounds.append(rate ** ((power - 1) // 2) * start**power)
        numbers = {"residual": residuals, "bound": bounds}
        logs = {name: [float(mpmath.log10(one)) for one in row] for name, row in numbers.items()}
    return xarray.Dataset({name: ("layer", row) for name, row in logs.items()})


def _centred(x: Any) -> Any:
    import mpmath

    means = [mpmath.fsum(x[i, j] for i in range(x.rows)) / x.rows for j in range(x.cols)]
    return mpmath.matrix([[x[i, j] - means[j] for j in range(x.cols)] for i in range(x.rows)])


def _norm_1(x: Any) -> Any:
    """The largest sum of a column."""
    return max(sum(abs(x[i, j]) for i in range(x.rows)) for j in range(x.cols))


def _norm(x: Any) -> Any:
    import mpmath

    return mpmath.sqrt(_norm_1(x) * _norm_1(x.T))


def _softmax(scores: Any) -> Any:
    import mpmath

    rows = [[mpmath.exp(scores[i, j]) for j in range(scores.cols)] for i in range(scores.rows)]
    return mpmath.matrix([[one / mpmath.fsum(row) for one in row] for row in rows])
