# Lemmas 2, 4, 8, Theorem 5, eq. 14 at l = 0: three orthonormal samples, an input of norm sqrt 3
import numpy as np

n, d = 3, 400
H = np.eye(d)[:, :n]
V = np.linalg.norm(H.T @ H / np.linalg.norm(H) ** 2 - np.eye(n) / n)
hat = 1 / n - np.linalg.svd(H)[1][-1] ** 2
drift = (1 - 2 / 3 * (1 / n - hat)) * hat + 1 / d**0.5  # to bound the mean of the next hat, which is at least 0
distance = n * (1 - 1 / n**0.5) ** 2  # squared, of W H from G / sqrt n
print("V =", V, "and 2n hat =", 2 * n * hat, "; drift", drift, "; distance", distance, "and 2n V =", 2 * n * V)
assert 2 * n * hat < V and drift < -0.1 and distance > 2 * n * V + 0.5
