# Theorem 52 with m = 2L: for normalised ReLU the mean cosine after L layers is about 2/m, not exponentially small
import numpy as np

rng = np.random.default_rng(0)
for L in (10, 20, 40):
    c = np.full((2000, 1), 0.5)  # cosines of 2000 networks; pre-activations of unit vectors are pairs of correlation c
    for z, other in (rng.standard_normal((2, 2000, 2 * L)) for _ in range(L)):
        u, v = np.maximum([z, c * z + np.sqrt(1 - c**2) * other], 0) - 1 / np.sqrt(2 * np.pi)  # the scale cancels
        c = ((u * v).sum(1) / np.sqrt((u * u).sum(1) * (v * v).sum(1)))[:, None].clip(-1, 1)
    print("L =", L, "m E ρ_L =", 2 * L * c.mean())
assert 2 * L * c.mean() > 1
