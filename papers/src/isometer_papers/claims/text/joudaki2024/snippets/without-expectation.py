# Lemma C.12, Theorem C.10, d = 2: rotations that use up psi evenly; the sum and the gradient grow like sqrt(L)
import numpy as np

for L in (64, 1024):
    X, total, J = np.array([[1.0, 0.0], [np.sqrt(1 - np.exp(-2)), np.exp(-1)]]), 0.0, np.eye(2)
    for k in range(L - 1):  # J: derivatives of the directions of both samples
        t = np.arcsin(np.sqrt((1 - np.exp(-2 / L)) / (1 - np.exp(2 * k / L - 2)))) / 2
        W = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
        n = np.linalg.norm(W @ X, axis=1, keepdims=True)
        total, J, X = total - np.log(n.min()), W * (W @ X / n @ X.T) / n @ J, W @ X / n
    print("L =", L, "sum of log |J_BN|:", total, "sqrt(L/2):", np.sqrt(L / 2), "|J_F|:", np.linalg.norm(J, 2))
assert min(total, np.linalg.norm(J, 2)) > 20
