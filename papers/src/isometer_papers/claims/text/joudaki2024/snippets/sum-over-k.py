# Proof of Lemma A.3, last line: rows of A have length 1; the diagonal does not give 1/d, the sum over all rows does
import numpy as np

A, d = np.array([[0.6, 0.8], [0.8, -0.6], [1.0, 0.0]]), 3
printed, meant = np.trace(A[:2] ** 2) ** 2 / d**2, ((A**2).sum(axis=1) ** 2).sum() / d**2
print("printed:", printed, "sum over k:", meant, "1/d =", 1 / d)
assert abs(meant - 1 / d) < 1e-12
assert printed < 0.3 / d
