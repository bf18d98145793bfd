# Section 2.2.2: d = n^2; sooner or later sigma_n falls below any alpha in every run, so A_1(alpha, infinity) fails
import numpy as np

rng, n, d, runs = np.random.default_rng(0), 2, 4, 500
H, least, told = np.tile(np.eye(d)[:, :n], (runs, 1, 1)) / n**0.5, np.ones(runs), []
for layer in range(1, 301):
    M = rng.standard_normal((runs, d, d)) @ H
    H = M / np.linalg.norm(M, axis=2, keepdims=True) / np.sqrt(d)
    least = np.minimum(least, np.linalg.svd(H, compute_uv=False)[:, -1])
    told += [float((least >= 0.2).mean())] if layer in (1, 10, 100, 300) else []
print("share of runs with sigma_n >= 0.2 up to layer 1, 10, 100, 300:", told)
assert told[0] > 0.8 > 0.01 > told[-1]
