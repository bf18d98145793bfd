# eq. A.19: n > d and equal singular values: V(H) is not 0, and the initialisation does not change it
import numpy as np

rng, n, d = np.random.default_rng(0), 5, 3
U, V = np.linalg.qr(rng.standard_normal((d, d)))[0], np.linalg.qr(rng.standard_normal((n, d)))[0]
s, Q = np.full(d, d**-0.5), np.linalg.qr(rng.standard_normal((d, d)))[0]  # Q in place of the slice V'
H = U * s @ V.T
W = Q * s**-0.5 @ U.T / np.sqrt(s.sum())
gaps = [np.linalg.norm(A.T @ A / (A**2).sum() - np.eye(n) / n) for A in (H, W @ H)]
print("V(H) =", gaps[0], "V(W H) =", gaps[1])
assert gaps[0] > 0.3
assert abs(gaps[0] - gaps[1]) < 1e-12
