# Corollary C.3 as printed: the U of X does not make the rows of another matrix H orthogonal
import numpy as np

X, H = np.diag([3.0, 2.0, 1.0]), np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
found = []
for M in (H, X):
    B = np.linalg.svd(X)[0].T @ M
    B /= np.linalg.norm(B, axis=1, keepdims=True)
    found.append(abs(np.linalg.det(B)) ** (2 / 3) / (np.trace(B @ B.T) / 3))
print("isometry of BN(U^T H) and of BN(U^T X):", found)
assert found[0] < 0.8 and abs(found[1] - 1) < 1e-12
