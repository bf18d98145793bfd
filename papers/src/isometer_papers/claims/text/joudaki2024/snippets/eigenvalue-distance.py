# Proof of Lemma A.4 for two orthogonal samples, E C = I/2: the least eigenvalue moves less than the whole matrix
import numpy as np

rng, d = np.random.default_rng(0), 20
M = rng.standard_normal((5000, d, 2))  # W_l H_l
H = M / np.linalg.norm(M, axis=2, keepdims=True) / np.sqrt(d)
shift = H.swapaxes(1, 2) @ H - np.eye(2) / 2
left, right = (np.linalg.eigvalsh(shift)[:, 0] ** 2).mean(), (shift**2).sum(axis=(1, 2)).mean()
print("left:", left, "about 1/(4d); right:", right, "about 1/(2d)")
assert left < 0.6 * right
