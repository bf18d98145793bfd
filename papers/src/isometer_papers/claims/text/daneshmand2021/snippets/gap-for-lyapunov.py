# Proof of Lemma 7, first line, two orthogonal samples: with the gap V the left side is twice the right side
import numpy as np

rng, d, n = np.random.default_rng(0), 16, 2
A = rng.standard_normal((20000, d, n))
A /= np.linalg.norm(A, axis=2, keepdims=True)
C = np.swapaxes(A, 1, 2) @ A / d
gap, least = np.linalg.norm(C - np.eye(n) / n, axis=(1, 2)), np.linalg.eigvalsh(C)[:, 0]
print("left", (gap**2).mean(), "right", ((least - 1 / n) ** 2).mean())  # p_n = 1/n
assert (gap**2).mean() > 1.9 * ((least - 1 / n) ** 2).mean()
