# Proof of Lemma 6: the sum over i != j of E[C]_ij is 0; it is that of E[C]_ij^2 which the right side gives
import numpy as np

rng, d, n = np.random.default_rng(0), 8, 3
A = rng.standard_normal((20000, d, n))
A /= np.linalg.norm(A, axis=2, keepdims=True)
C, off = np.swapaxes(A, 1, 2) @ A / d, 1 - np.eye(n)
right = ((A**2).sum(2) ** 2).sum(1).mean() / d**2 - (A**4).sum((1, 2)).mean() / d**2
print("sum of means", (C.mean(0) * off).sum(), "of squares", ((C**2).mean(0) * off).sum(), "right side", right)
assert abs((C.mean(0) * off).sum()) < 0.1 * right
