"""Twenty-digit references for fixed points of full batch norm, independent of the library.

Two samples of a normalised exchangeable batch are (v_i, v_j) = √(n−1) ρ (cos ψ, cos(ψ − θ)), cos θ = −1/(n−1), with ψ
uniform and w = √(1 − ρ²) of density ∝ w^{n−4}. Smooth activations: the trapezoidal rule in ψ, which is periodic, and
Gauss–Legendre in w, refined until nothing changes. Piecewise linear ones: E ρ² = 2/(n−1) and Gauss–Legendre between the
angles at which a sample changes sign. Run as a script it writes `batch_norm.json`; tests recompute an entry live.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

from mpmath import mp, mpf

from support.references.generate import gauss_rule

SIZES = (5, 10, 20, 50)
SMOOTH: dict[str, Callable[[mpf], mpf]] = {
    "tanh": mp.tanh,
    "gelu": lambda x: x * (1 + mp.erf(x / mp.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "sin": mp.sin,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}
RAYS = {"identity": (mpf(1), mpf(1)), "relu": (mpf(1), mpf(0)), "leaky_relu": (mpf(1), mpf("0.01"))}
DIGITS = 24


def smooth(phi: Callable[[mpf], mpf], n: int, angles: int, order: int) -> tuple[mpf, mpf]:
    theta, radius = mp.acos(mpf(-1) / (n - 1)), mp.sqrt(mpf(n - 1))
    turn = [2 * mp.pi * k / angles for k in range(angles)]
    directions = [(mp.cos(psi), mp.cos(psi - theta)) for psi in turn]
    own, cross, mass = mpf(0), mpf(0), mpf(0)
    for x, weight in gauss_rule(order):
        w = (1 + x) / 2
        size, share = radius * mp.sqrt(1 - w * w), weight * w ** (n - 4)
        first = [phi(size * c) for c, _ in directions]
        own += share * mp.fsum(value * value for value in first) / angles
        cross += share * mp.fsum(a * phi(size * c) for a, (_, c) in zip(first, directions, strict=True)) / angles
        mass += share
    return own / mass, cross / mass


def rays(right: mpf, left: mpf, n: int) -> tuple[mpf, mpf]:
    theta = mp.acos(mpf(-1) / (n - 1))

    def phi(x: mpf) -> mpf:
        return right * x if x > 0 else left * x

    breaks = sorted({mp.pi / 2, 3 * mp.pi / 2, theta + mp.pi / 2, theta + 3 * mp.pi / 2 - 2 * mp.pi, mpf(0), 2 * mp.pi})
    own, cross = mpf(0), mpf(0)
    for low, high in itertools.pairwise(breaks):
        for x, weight in gauss_rule(32):
            psi = (low + high + (high - low) * x) / 2
            share = weight * (high - low) / (4 * mp.pi)
            own += share * phi(mp.cos(psi)) ** 2
            cross += share * phi(mp.cos(psi)) * phi(mp.cos(psi - theta))
    return 2 * own, 2 * cross  # E ρ² (n − 1) = 2


@mp.workdps(DIGITS)
def fixed_point(name: str, n: int) -> tuple[mpf, mpf]:
    """Diagonal and off-diagonal entry of G*."""
    if name in RAYS:
        return rays(*RAYS[name], n)
    angles, order = 48, 16
    before = smooth(SMOOTH[name], n, angles, order)
    while True:
        angles, order = 2 * angles, order + 12
        here = smooth(SMOOTH[name], n, angles, order)
        if max(abs(a - b) for a, b in zip(before, here, strict=True)) < mpf(10) ** -13:
            return here  # both rules converge geometrically: the change squares
        before = here


def main() -> None:
    record = {
        name: {str(n): [mp.nstr(value, 18) for value in fixed_point(name, n)] for n in SIZES}
        for name in (*RAYS, *SMOOTH)
    }
    path = Path(__file__).with_name("batch_norm.json")
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
