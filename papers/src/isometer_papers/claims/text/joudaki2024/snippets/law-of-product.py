# Proof of Theorem C.4: W and X' = W diag(sigma) V^T do not have one law, X = BN(.) with rows of length 1
import numpy as np

rng, X = np.random.default_rng(1), np.array([[1.0, 0.0], [0.6, 0.8]])
sigma, right = np.linalg.svd(X)[1:]
draws = [np.linalg.qr(rng.standard_normal((2, 2)))[0] for _ in range(200)]
first, second = [[abs(np.linalg.det(A)) for A in law] for law in (draws, [W * sigma @ right for W in draws])]
print("|det W| =", min(first), max(first), "|det X'| =", min(second), max(second))
assert max(second) < 0.9 < min(first)
