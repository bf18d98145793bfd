# Table 1: rank_tau by eq. 4 of B X as it is counts almost all singular values, since they grow
import numpy as np

rng, d, tau = np.random.default_rng(0), 16, 0.5
H = rng.standard_normal((d, d))
for _ in range(12):
    H = H + rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ H
sigma = np.linalg.svd(H, compute_uv=False)
print("rank_tau =", (sigma**2 / d >= tau).sum(), "of", d, "; the fifth singular value is", sigma[4])
assert (sigma**2 / d >= tau).sum() > 8
