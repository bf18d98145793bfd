# Proof of Lemma 6, last line: rows of A have length 1, so that one k gives 1/d^2; the sum over k gives 1/d
import numpy as np

A, d = np.array([[0.6, 0.8], [1.0, 0.0], [0.8, -0.6]]), 3
print(
    "for k = 1:", (A[0] ** 2).sum() ** 2 / d**2, "sum over k:", ((A**2).sum(axis=1) ** 2).sum() / d**2, "1/d =", 1 / d
)
assert (A[0] ** 2).sum() ** 2 / d**2 < 0.5 / d
