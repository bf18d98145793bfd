# Lemma C.12, Theorem C.10, d = 2: rotations that use up psi evenly; the sum and the gradient grow like sqrt(L)
import numpy as np

for L in (64, 1024):
    X, total, J, q = np.array([[1.0, 0.0], [np.sqrt(1 - np.exp(-2)), np.exp(-1)]]), 0.0, np.eye(2), 1 - np.exp(-2 / L)
    for k in range(L - 1):  # J: derivatives of the directions of both samples
        t = np.arcsin(np.sqrt(q / (1 - np.exp(-2 * (1 - k / L))))) / 2
        W = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
        n = np.linalg.norm(W @ X, axis=1, keepdims=True)
        total, J, X = total - np.log(n.min()), W * (W @ X / n @ X.T) / n @ J, W @ X / n
    print(
        "L =", L, "sum of log |J_BN|:", total, "sqrt(L/2):", np.sqrt(L / 2), "log |J_F|:", np.log(np.linalg.norm(J, 2))
    )
assert total > 20
assert np.linalg.norm(J, 2) > 50
