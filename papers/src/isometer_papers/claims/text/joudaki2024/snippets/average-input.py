# A.2, stability, with an input of norm above 1: the right side is negative, the left side is not
import numpy as np

rng, n, d, H = np.random.default_rng(0), 2, 64, 5 * np.eye(64)[:, :2]
right = 3 * (1 / n - np.linalg.svd(H)[1][-1] ** 2) / 2 + 3 / (2 * d**0.5)  # one layer
M = rng.standard_normal((1000, d, d)) @ H
K = M / np.linalg.norm(M, axis=2, keepdims=True) / np.sqrt(d)
hat = 1 / n - np.linalg.svd(K, compute_uv=False)[:, -1] ** 2
print("left", (hat * (1 / n - hat)).mean(), "right", right)
assert (hat * (1 / n - hat)).mean() > right
