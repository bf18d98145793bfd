# eq. 6.5 for X of d = 3 rows and n = 2 orthonormal columns, exponent and factor 1/d: negative
import numpy as np

X, d = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 3
G = X.T @ X
gap = -np.log(np.linalg.det(G) ** (1 / d) / (np.trace(G) / d))
print("phi(X) =", gap, "; with n for d:", -np.log(np.linalg.det(G) ** (1 / 2) / (np.trace(G) / 2)))
assert gap < -0.4
