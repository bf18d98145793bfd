"""Activations of pairs of Gaussians, entry by entry: closed forms for homogeneous φ, erf and gelu, Hermite series else.

With mean squares v, w and E xy = k, for slopes s₊ and s₋ on the two sides of 0, Δ = s₊ − s₋ and cos θ = k/√(vw):

    E φφ = Δ²(√(vw − k²) + k(π − θ))/2π + s₊s₋k,      E φ′φ′ = Δ²(π − θ)/2π + s₊s₋,

for erf, with D = (1 + 2v)(1 + 2w): E φφ = (2/π) asin(2k/√D), E φ′φ′ = (4/π)/√(D − 4k²), and for gelu, xΦ(x), with
D = (1 + v)(1 + w) and R = √(D − k²), by Stein's lemma

    E φφ = k(1/4 + asin(k/√D)/2π) + (vw − k² + k²/(1 + v) + k²/(1 + w))/2πR,
    E φ′φ′ = 1/4 + asin(k/√D)/2π + k(1/(1 + v) + 1/(1 + w))/2πR + k/2πR³.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.networks._pair_state import NotByPairs

Floats = NDArray[Any]
_VARIANCES = 1 << 12  # whose coefficients are made at a time


class PairDual(Protocol):
    """What Gaussians see of φ."""

    def moments(self, squares: Floats) -> tuple[Floats, Floats]:
        """(E φ², E φ) at mean squares."""

    def pairs(self, k: Floats, one: Floats, other: Floats, tangent: Floats | None) -> None:
        """Overwrite k by E φφ, and multiply `tangent` by E φ′φ′; `one` and `other` are mean squares, broadcast."""


def pair_dual(phi: Activation) -> PairDual:
    """The formula for φ.

    Example:
        >>> k = np.array([0.5])
        >>> pair_dual(activation("relu")).pairs(k, np.ones(1), np.ones(1), None)
        >>> round(float(k[0]), 6)
        0.304499
    """
    rays = as_two_rays(phi.expression)
    if rays is not None:
        return PairRays(*rays)
    if phi.expression == activation("erf").expression:
        return PairErf()
    if phi.expression == activation("gelu").expression:
        return PairGelu()
    if phi.kinks or phi.jumps:
        raise NotByPairs(f"act({phi.name!r})", "it has kinks and is not homogeneous, so it needs an integral per pair")
    return PairSeries(phi)


class PairRays:
    """φ with a slope on each side of 0."""

    def __init__(self, right: float, left: float) -> None:
        self._jump, self._product = (right - left) ** 2, right * left
        self._mean = (right - left) / math.sqrt(2 * math.pi)
        self._square = (right**2 + left**2) / 2

    def moments(self, squares: Floats) -> tuple[Floats, Floats]:
        """(E φ², E φ)."""
        return self._square * squares, self._mean * np.sqrt(squares)

    def pairs(self, k: Floats, one: Floats, other: Floats, tangent: Floats | None) -> None:
        """See the module."""
        if self._jump == 0.0:
            k *= self._product
            if tangent is not None:
                tangent *= self._product
            return
        limit = np.multiply(one, other)
        square = np.multiply(k, k)
        root = np.subtract(limit, square, out=square)
        np.maximum(root, 0.0, out=root)
        np.sqrt(root, out=root)
        np.sqrt(limit, out=limit)
        limit[limit == 0.0] = 1.0
        rest = np.divide(k, limit, out=limit)  # cos θ
        np.clip(rest, -1.0, 1.0, out=rest)
        np.negative(rest, out=rest)
        np.arccos(rest, out=rest)  # π − θ
        rest *= self._jump / (2 * math.pi)
        root *= self._jump / (2 * math.pi)
        if self._product:
            rest += self._product
        k *= rest
        k += root
        if tangent is not None:
            tangent *= rest


class PairErf:
    """The error function."""

    def moments(self, squares: Floats) -> tuple[Floats, Floats]:
        """(E φ², 0)."""
        return (2 / math.pi) * np.arcsin(2 * squares / (1 + 2 * squares)), np.zeros_like(squares)

    def pairs(self, k: Floats, one: Floats, other: Floats, tangent: Floats | None) -> None:
        """See the module."""
        size = np.multiply(1 + 2 * one, 1 + 2 * other)
        k *= 2.0
        if tangent is not None:
            rest = np.multiply(k, k)
            np.subtract(size, rest, out=rest)
            np.sqrt(rest, out=rest)
            tangent *= 4 / math.pi
            tangent /= rest
        np.sqrt(size, out=size)
        k /= size
        np.arcsin(k, out=k)
        k *= 2 / math.pi


class PairGelu:
    """x times the normal distribution function."""

    def moments(self, squares: Floats) -> tuple[Floats, Floats]:
        """(E φ², E φ)."""
        square = squares.astype(np.float64)  # a copy that becomes E φ²
        self.pairs(square, squares, squares, None)
        return square, squares / np.sqrt(2 * math.pi * (1 + squares))

    def pairs(self, k: Floats, one: Floats, other: Floats, tangent: Floats | None) -> None:
        """See the module."""
        size = np.multiply(1 + one, 1 + other)
        square = np.multiply(k, k)
        root = np.subtract(size, square)
        np.sqrt(root, out=root)
        np.sqrt(size, out=size)
        both = np.divide(k, size, out=size)
        np.arcsin(both, out=both)
        both *= 1 / (2 * math.pi)
        both += 0.25  # E ΦΦ
        sides = 1 / (1 + one) + 1 / (1 + other)
        if tangent is not None:
            slope = 1.0 / (root * root)
            slope += sides
            slope *= k
            slope /= root
            slope *= 1 / (2 * math.pi)
            slope += both
            tangent *= slope
        sides -= 1.0
        square *= sides
        square += one * other
        square /= root
        square *= 1 / (2 * math.pi)
        k *= both
        k += square


class PairSeries:
    """A smooth φ by its Hermite coefficients a_j(v): E φφ = Σ a_j(v) a_j(w) ρ^j."""

    def __init__(self, phi: Activation) -> None:
        self._phi, self._family = phi, SignalFamily(phi)

    def moments(self, squares: Floats) -> tuple[Floats, Floats]:
        """(E φ², E φ)."""
        table = self._table(squares)
        return np.einsum("...k,...k->...", table, table), table[..., 0]

    def _table(self, squares: Floats) -> Floats:
        own, place = np.unique(np.asarray(squares, dtype=np.float64), return_inverse=True)
        alive = own > 0.0
        rows = own[alive]
        found = [self._family.coefficients(rows[at : at + _VARIANCES]) for at in range(0, len(rows), _VARIANCES)]
        if any(one is None for one in found):
            raise NotByPairs(f"act({self._phi.name!r})", "its Hermite series does not converge")
        degrees = max((one.shape[1] for one in found if one is not None), default=1)
        whole = np.zeros((len(own), degrees))
        made = [np.pad(one, ((0, 0), (0, degrees - one.shape[1]))) for one in found if one is not None]
        if made:
            whole[alive] = np.concatenate(made)
        whole[~alive, 0] = float(self._phi(0.0))
        weight = (whole**2 * (1 + np.arange(degrees))).max(axis=0)
        keep = max(2, int(np.flatnonzero(weight > 1e-18 * weight.sum())[-1]) + 1)
        return np.asarray(whole[:, :keep][place.reshape(squares.shape)])

    def pairs(self, k: Floats, one: Floats, other: Floats, tangent: Floats | None) -> None:
        """Horner's rule from the highest degree; E φ′φ′ = Σ j a_j a_j ρ^{j−1}/√(vw)."""
        size = np.sqrt(one * other)
        size[size == 0.0] = 1.0
        cosine = np.clip(k / size, -1.0, 1.0)
        first, second = self._table(one), self._table(other)
        degrees = min(first.shape[-1], second.shape[-1])
        total = np.zeros_like(cosine)
        slope = np.zeros_like(cosine)
        for degree in range(degrees - 1, -1, -1):
            left, right = first[..., degree], second[..., degree]
            total *= cosine
            if degree and tangent is not None:
                slope *= cosine
            if left.any() and right.any():
                term = left * right
                total += term
                if degree and tangent is not None:
                    term *= degree
                    slope += term
        k[...] = total
        if tangent is not None:
            slope /= size
            tangent *= slope
