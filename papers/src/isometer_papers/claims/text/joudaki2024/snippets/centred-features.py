# Corollary 4.5 with BN as in section 3.2: the features of X = I_2 become (1, -1) and (-1, 1)
import numpy as np

X = np.eye(2)
Y = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
before, after = (np.sqrt(max(np.linalg.det(A @ A.T), 0)) / (np.trace(A @ A.T) / 2) for A in (X, Y))
print("isometry before:", before, "after:", after)
assert after < 1e-6 < before
