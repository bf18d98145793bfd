# under eq. 6.5: X X^T = I for d = 2, n = 3 has an infinite gap; d = 3, n = 2 with gap 0, X^T X no multiple of I
import numpy as np
from scipy.optimize import brentq

X = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
root = brentq(lambda v: np.log(v) / 3 - np.log((1 + v) / 3), 1.5, 10)
Y = np.diag([1.0, np.sqrt(root), 0.0])[:, :2]
gap = -np.log(np.linalg.det(Y.T @ Y) ** (1 / 3) / (np.trace(Y.T @ Y) / 3))
print("X X^T =", X @ X.T, "det X^T X =", np.linalg.det(X.T @ X), "; psi(Y) =", gap, "and Y^T Y =", Y.T @ Y)
assert abs(np.linalg.det(X.T @ X)) < 1e-15 and abs(gap) < 1e-9 and root > 3
