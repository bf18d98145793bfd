# Theorems 3.2, B.6, Lemmas B.4, B.5, n = 2, ReLU: if BN(h_0) has only rows (1, -1), sample 2 is 0 in layer 1; mu_* has
# that with chance 2^-d, so that alpha is at most 2^-d. G_* = I/2, distances are below 1, and so is tv
import numpy as np

d, n = 50, 2
alpha, eps = 2.0**-d, n * 2 / np.sqrt(d)
theorem = n / np.sqrt(d) * alpha**-0.5 * np.sqrt(np.log(d / n))
lemma = eps**2 * np.log(1 / eps) / alpha
print("bound of Theorem 3.2:", theorem, "of Lemmas B.4, B.5 and, but for 1/t^2, of Theorem B.6:", lemma)
assert min(theorem, lemma) > 1e6
