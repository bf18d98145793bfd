# proof of Theorem 15: E|ρ_L| for sign with m = 2L is of order 1/√m, not exponentially small in L
import numpy as np

rng = np.random.default_rng(0)
for L in (10, 20, 40):
    c = np.full((2000, 1), 0.5)  # cosines of 2000 networks; pre-activations of unit vectors are pairs of correlation c
    for z, other in (rng.standard_normal((2, 2000, 2 * L)) for _ in range(L)):
        c = (np.sign(z) * np.sign(c * z + np.sqrt(1 - c**2) * other)).mean(axis=1, keepdims=True)
    print("L =", L, "√m E|ρ_L| =", np.sqrt(2 * L) * abs(c).mean())
assert np.sqrt(2 * L) * abs(c).mean() > 0.8
