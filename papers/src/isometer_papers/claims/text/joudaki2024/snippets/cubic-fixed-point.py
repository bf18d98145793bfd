# eq. 3.3 for x^3 and tanh, n = 9, 20,000 draws from G_0 = I: a fixed point G_* that attracts treats all samples alike
import numpy as np

Z, spread = np.random.default_rng(0).standard_normal((20_000, 9)), []
for phi, G in ((lambda x: x**3, np.eye(9)), (np.tanh, np.eye(9))):
    for _ in range(25):
        h = Z @ np.linalg.cholesky(G + 1e-9 * np.eye(9)).T
        A = phi((h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True))
        G = A.T @ A / len(A)
    spread.append(np.ptp(G[np.triu_indices(9, 1)]) / np.diag(G).mean())
print("spread of the cosines after 25 layers, x^3 and tanh:", spread)
assert spread[0] > 0.3 > 0.1 > spread[1]
