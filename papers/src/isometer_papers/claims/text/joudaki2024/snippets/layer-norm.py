# Corollary 4.4: layer norm of two samples in R^3, as columns, that differ by a constant: they coincide after centring
import numpy as np

X = np.array([[1.0, 3.0], [0.0, 2.0], [0.0, 2.0]])
Y = (X - X.mean(axis=0)) / X.std(axis=0)
before, after = (np.sqrt(max(np.linalg.det(A.T @ A), 0)) / (np.trace(A.T @ A) / 2) for A in (X, Y))
print("isometry before:", before, "after layer norm:", after)
assert after < 1e-6 < 0.1 < before
