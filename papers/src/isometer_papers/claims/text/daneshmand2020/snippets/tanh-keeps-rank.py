# Table 1: tanh without BN, weights U[-sqrt 3, sqrt 3]: rank_1/2 stays far above one, with gamma = 0.1 and without skip
import numpy as np

rng, d, ranks = np.random.default_rng(0), 32, []
for skip, gamma in ((1, 0.1), (0, 1.0)):
    H = rng.standard_normal((d, d))
    for _ in range(1000):
        H = skip * H + gamma * rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ np.tanh(H)
    values = np.linalg.svd(H, compute_uv=False) ** 2
    ranks.append((values / values.sum() * d >= 0.5).sum())
print("rank_1/2 after 1000 layers, |H|_F^2 = N d:", ranks)
assert min(ranks) > 5
