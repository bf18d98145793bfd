# after Corollary 4.5: d = 3 features, n = 2 samples; BN without mean stretches the short row, and X^T X gets worse
import numpy as np

X = np.array([[1.0, 0.0], [0.0, 1.0], [0.125, 0.125]])
Y = X / np.linalg.norm(X, axis=1, keepdims=True)
before, after = (np.sqrt(np.linalg.det(A.T @ A)) / (np.trace(A.T @ A) / 2) for A in (X, Y))
print("isometry of the Gram matrix before:", before, "after:", after)
assert after < before - 0.05
