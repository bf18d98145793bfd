"""Second formulas for the results of paper 000 that fail: plain NumPy, nothing of the theory that the claims use."""

from __future__ import annotations

import numpy as np

from isometer_papers.claims._claim import Instance, SecondFormula

_ANGLES = np.linspace(0.0, 2 * np.pi, 20_001)[:-1]


def _rectified_distance(u: np.ndarray, v: np.ndarray) -> float:
    """E(relu(w·u) − relu(w·v))² for standard Gaussian w: twice the mean over the angle of w in the plane of u, v."""
    long, short = float(np.linalg.norm(u)), float(np.linalg.norm(v))
    cosine = float(u @ v) / (long * short) if long and short else 0.0
    between = np.arccos(np.clip(cosine, -1.0, 1.0))
    first, second = long * np.cos(_ANGLES), short * np.cos(_ANGLES - between)
    return 2 * float(((np.maximum(first, 0) - np.maximum(second, 0)) ** 2).mean())


def _cluster_against_odd_point(i: Instance) -> tuple[float, float]:
    """Theorem 14: distances within the cluster over that of the odd point, after the layer and before it."""
    samples = np.asarray(i["X"], dtype=float)
    points = np.vstack([samples, samples[1:].mean(axis=0)]) - samples.mean(
        axis=0
    )  # the last one is the cluster's centre
    one, other, odd, centre = points[i["i"]], points[i["j"]], points[0], points[-1]
    before = ((one - other) ** 2).sum() / ((odd - centre) ** 2).sum()
    return _rectified_distance(one, other) / _rectified_distance(odd, centre), float(before)


SECOND = {
    "000/thm-14:scale": SecondFormula(
        _cluster_against_odd_point, "mean over the angle of a weight vector instead of the arc-cosine kernel"
    ),
}
