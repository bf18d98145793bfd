"""The density of log σ² from the S-transform: along rays from the negative axis, where it is easy, to the positive one.

On the negative axis χ is explicit for every u, which places the points: evenly over the logit of u, so that they are as
dense as the law is. Then w = |w| e^{iφ} turns from φ = π to φ ≈ 0 for all points at once; Newton steps follow u. The
density over log σ² is Im u/π, less the tails of atoms, which are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.theory.jacobians._factors import Complexes, FreeProduct

Floats = NDArray[np.float64]
_EDGE = 11.0  # logit of u at the first and last point: mass of about e^−11 lies beyond
_ANGLES = np.concatenate([np.linspace(np.pi, 0.0, 25)[1:-1], 0.12 * 0.5 ** np.arange(0, 14)])
_CLOSE = 1e-11
_STEPS = 25


@dataclass(frozen=True)
class Density:
    """The part of the law of log σ² that has a density, at points; and how far Newton came at the worst of them."""

    log_square: Floats
    density: Floats
    blur: Floats  # the angle that was reached: features narrower than this are smeared


def solve_density(law: FreeProduct, points: int) -> Density:
    """The density at `points` points, and at as many more where the first ones saw it change."""
    logit = np.linspace(-_EDGE, _EDGE, points)
    first = _along(law, logit)
    finer = _refined(logit, first, points)
    return _joined(first, _along(law, finer))


def _joined(first: Density, second: Density) -> Density:
    place = np.concatenate([first.log_square, second.log_square])
    order = np.argsort(place)
    pick = [np.concatenate(pair)[order] for pair in ((first.density, second.density), (first.blur, second.blur))]
    return Density(place[order], pick[0], pick[1])


def _refined(logit: Floats, found: Density, points: int) -> Floats:
    """Between the first points, by how much the density changes from one to the next."""
    order = np.argsort(found.log_square)
    place, height = found.log_square[order], found.density[order]
    top = max(float(height.max()), 1e-300)
    size = np.abs(np.diff(height)) / top + 0.3 * np.diff(place) * height[1:] + 1e-4
    total = np.concatenate([[0.0], np.cumsum(size)])
    targets = (np.arange(points) + 0.5) / points * total[-1]
    return np.asarray(np.interp(targets, total, logit[order]))


def _along(law: FreeProduct, logit: Floats) -> Density:
    rank = law.rank
    u = -rank / (1.0 + np.exp(-logit))
    state = law.start(u)
    log_w, _, state = law.log_chi(u.astype(complex), state)
    size = log_w.real  # log |w| = −log σ²
    log_u = np.log(-u) + 1j * np.pi
    reached = np.full(u.shape, np.pi)
    alive = np.ones(u.shape, dtype=bool)
    before, last_angle = log_u, np.pi
    older, older_angle = log_u, np.pi
    wide, wide_angle = log_u, np.full(u.shape, np.pi)
    for angle in _ANGLES:
        guess = before
        if older_angle != last_angle:  # along the tangent of the last two
            guess = before + (before - older) * (last_angle - angle) / (older_angle - last_angle)
            guess = np.where((guess.imag > 0) & alive, guess, before)
        found, new_state, good = _newton(law, size + 1j * angle, guess, state)
        again = ~good & alive
        if again.any():
            plain, other, fine = _newton(law, size + 1j * angle, before, state)
            found, good = np.where(again & fine, plain, found), good | (again & fine)
            new_state = _chosen(again & fine, other, new_state)
        alive = alive & good
        if not alive.any():
            break
        older, older_angle = before, last_angle
        before = np.where(alive, found, before)
        state = _chosen(alive, new_state, state)
        reached = np.where(alive, angle, reached)
        last_angle = angle
        wide, wide_angle = (np.where(alive, one, kept) for one, kept in ((older, wide), (older_angle, wide_angle)))
    heights = [_height(law, size, one, angle) for one, angle in ((before, reached), (wide, wide_angle))]
    # Beside the support Im u is proportional to the angle: the line through two angles ends at zero.
    line = heights[0] - (heights[1] - heights[0]) * reached / np.maximum(wide_angle - reached, 1e-300)
    return Density(-size, np.maximum(line, 0.0), reached)


def _height(law: FreeProduct, size: Floats, log_u: Complexes, angle: Floats) -> Floats:
    u, atoms = np.exp(log_u), law.atoms
    if atoms.mass > 0:
        t = np.exp(size + 1j * angle + atoms.log_place)
        u = u - atoms.mass * t / (1.0 - t)
    return np.asarray(u.imag / np.pi)


def _newton(
    law: FreeProduct, target: Complexes, log_u: Complexes, state: Any
) -> tuple[Complexes, Any, NDArray[np.bool_]]:
    """log χ(u) = target; each point says whether it got there, inside the upper half plane."""
    worst = np.full(target.shape, np.inf)
    for _ in range(_STEPS):
        u = np.exp(log_u)
        value, slope, state = law.log_chi(u, state)
        step = (target - value) / (slope * u)
        worst = np.abs(step)
        step = np.where(worst > 0.5, 0.5 * step / np.where(worst > 0, worst, 1.0), step)
        step = np.where(np.isfinite(step), step, 0.0)
        log_u = log_u + step
        log_u = np.where(log_u.imag < 0, log_u.real + 0j, log_u)
        if not worst.max() > _CLOSE:
            break
    return log_u, state, worst <= 1e-6


def _chosen(where: NDArray[np.bool_], first: Any, second: Any) -> Any:
    """States point by point."""
    if isinstance(first, list | tuple):
        return type(first)(_chosen(where, a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, np.ndarray):
        return np.where(where, first, second)
    return first
