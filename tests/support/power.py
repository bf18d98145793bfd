"""The power of the comparisons of laws."""

from __future__ import annotations

import numpy as np
from scipy import stats


def rejections(runs: int, shift: float, spread: float, level: float) -> int:
    """How often, of 300 times, Kolmogorov and Smirnov's test tells a normal law from a shifted and spread one."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        first, second = rng.standard_normal(runs), shift + spread * rng.standard_normal(runs)
        found += stats.ks_2samp(first, second, method="asymp").pvalue <= level
    return found
