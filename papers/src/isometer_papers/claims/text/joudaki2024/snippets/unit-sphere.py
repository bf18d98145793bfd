# Proof of Theorem 4.3: samples scaled to length 1 have a Gram matrix of trace n, not nd
import numpy as np

X = np.array([[1.0, 3.0], [2.0, 0.0], [2.0, 4.0]])  # n = 2 samples in R^3, as columns
X /= np.linalg.norm(X, axis=0)
print("tr/n =", np.trace(X.T @ X) / 2, "and d = 3")
assert np.trace(X.T @ X) / 2 < 1.1
