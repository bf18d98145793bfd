"""What a prediction takes: memory and time, before anything is computed."""

from __future__ import annotations

from isometer.work import Work, check_work

# Measured on one core of a common computer, and rounded up.
_LAYER = 5e-3  # seconds whatever the batch
_POINTS = 1 << 14  # that sampled expectations take
_POINT = 1e-7  # seconds per number of a sampled batch
_FLOP = 1e-9
_RESPONSE = 1 << 11  # points behind the response of a layer to its input
_DRAWS = 384  # Gram matrices behind a band


def prediction_work(samples: int, layers: int, metrics: int, *, backward: bool) -> Work:
    """Of infinite width: five Gram matrices are kept per layer.

    Example:
        >>> prediction_work(10, 100, 10, backward=False).seconds < 60
        True
    """
    n = float(samples)
    each = _LAYER + 8 * _POINT * _POINTS * n + _FLOP * (_POINTS * n * n + (30 + 15 * metrics) * n**3)
    memory = 8.0 * (layers * (5 * n * n + 40) + 8 * _POINTS * n + 12 * n * n) + 600.0 * layers
    return Work(memory, 1.0 + layers * each * (2 if backward else 1))


def band_work(samples: int, layers: int, metrics: int) -> Work:
    """Of finite width: the covariance of all entries of a Gram matrix, layer by layer.

    Example:
        >>> band_work(10, 50, 10).seconds < 60
        True
    """
    n = float(samples)
    entries = n * (n + 1) / 2  # of a symmetric matrix
    each = _LAYER + _FLOP * (3 * _RESPONSE * (entries**2 + n**3) + 20 * entries**3)
    each += _DRAWS * metrics * (2e-5 + 20 * _FLOP * n**3)
    # each law keeps its covariance, what it is whitened to, and a root of that; a layer works on all n² entries
    memory = 8.0 * (layers * (5 * entries**2 + 40) + 10 * 4 * _RESPONSE * n * n + 12 * n**4 + 12 * _DRAWS * n * n)
    return Work(memory, 1.0 + layers * (each + 8 * _POINT * _RESPONSE * n))


def check_prediction_work(samples: int, layers: int, metrics: int, *, backward: bool) -> None:
    """Refuse a prediction that takes more than is allowed."""
    check_work(
        "the prediction",
        prediction_work(samples, layers, metrics, backward=backward),
        {
            "samples": (samples, lambda n: prediction_work(n, layers, metrics, backward=backward)),
            "layers": (layers, lambda depth: prediction_work(samples, depth, metrics, backward=backward)),
        },
    )


def check_band_work(samples: int, layers: int, metrics: int) -> None:
    """Refuse a band that takes more than is allowed."""
    check_work(
        "the band of finite width",
        band_work(samples, layers, metrics),
        {
            "samples": (samples, lambda n: band_work(n, layers, metrics)),
            "layers": (layers, lambda depth: band_work(samples, depth, metrics)),
        },
    )
