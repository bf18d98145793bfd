# eq. 3.3 for x^3, n = 9, 20,000 draws: G_* treats all samples alike, and the small differences between them grow
import numpy as np

Z, G, spread = np.random.default_rng(0).standard_normal((20_000, 9)), np.eye(9), []
for _ in range(20):
    h = Z @ np.linalg.cholesky(G + 1e-9 * np.eye(9)).T
    A = ((h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True)) ** 3
    G = A.T @ A / len(A)
    spread.append(float(np.ptp(G[np.triu_indices(9, 1)]) / np.diag(G).mean()))
print("largest less smallest cosine after 1, 2, 5, 10, 20 layers:", [spread[k - 1] for k in (1, 2, 5, 10, 20)])
assert spread[19] > 0.4 > 0.1 > spread[0]
