# eq. C.87: the operator norm of J_BN is 1/(shortest row), which is 1 at X = BN(.) and larger at H = WX
import numpy as np

X, t = np.array([[1.0, 0.0], [0.6, 0.8]]), 0.9
W = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
J = [(np.eye(2) - np.outer(h, h) / (h @ h)) / np.linalg.norm(h) for h in W @ X]
F = np.block([[W[i, j] * J[i] for j in range(2)] for i in range(2)])  # Jacobian of X -> BN(WX)
print("log of the norm:", np.log(np.linalg.norm(F, 2)), "bound of eq. C.87:", -np.log(np.linalg.norm(X, axis=1).min()))
assert np.log(np.linalg.norm(F, 2)) > 0.3
