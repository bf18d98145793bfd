# eq. 58: with the printed sign every H in the space satisfies it, whatever alpha is, and eq. 60 does not follow
import numpy as np

rng, d, N, alpha = np.random.default_rng(0), 4, 6, 0.5
H = np.outer(np.ones(d), rng.standard_normal(N)) + 0.1 * rng.standard_normal((d, N))
H *= np.sqrt(N) / np.linalg.norm(H, axis=1, keepdims=True)
M = H @ H.T / N
eq_58 = 2 * d**2 - (2 * np.trace(M @ M) - 8 * (1 - alpha) * np.trace(M @ M @ M))
print("eq. 58: 0 <=", eq_58, "and eq. 60:", np.trace(M @ M @ M), "<=", d**2 / (1 - alpha))
assert eq_58 > 0
assert np.trace(M @ M @ M) > d**2 / (1 - alpha)
