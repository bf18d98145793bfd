"""Instances and small helpers that several claims of 000 share. A batch X is `(n, k)`: samples, then features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.float_or_mpmath import Numeric


def proportion(hits: int, draws: int) -> Estimate:
    """A share of independent draws; the error is not 0 where all or none are hits."""
    share = hits / draws
    return Estimate(share, math.sqrt(share * (1 - share) / draws) + 3 / draws, math.inf, draws)


def collinear(x: Numeric) -> bool:
    """Whether two samples are, or one is zero, to the precision of floats."""
    x = np.asarray(x, dtype=float)
    sizes = np.linalg.norm(x, axis=1)
    if (sizes <= 1e-12 * max(1e-300, float(sizes.max()))).any():
        return True
    cosine = np.abs((x / sizes[:, None]) @ (x / sizes[:, None]).T)
    np.fill_diagonal(cosine, 0.0)
    return bool((cosine > 1 - 1e-9).any())


def fan(n: int, step: float) -> Any:
    """Unit vectors of the plane, a step of the angle apart."""
    angle = np.arange(n) * step
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def plane_batches(rng: Rng, count: int, least: int = 1, most: int = 7) -> Iterator[Instance]:
    """Batches of two features without collinear samples: Gaussian, small whole numbers, fans."""
    made = 0
    while made < count:
        n = int(rng.integers(least, most + 1))
        style = int(rng.integers(3))
        if style == 0:
            x = rng.standard_normal((n, 2))
        elif style == 1:
            x = rng.integers(-4, 5, (n, 2)).astype(float)
        else:
            x = fan(n, float(rng.choice([0.3, 0.1, 0.03]))) * rng.uniform(0.3, 3, (n, 1))
        if not collinear(x):
            made += 1
            yield {"X": x}
