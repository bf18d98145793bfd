# under eq. A.7: H_+^T H_+ is the printed average only after a rotation by V; the eigenvalues agree
import numpy as np

V, s, W = np.array([[0.6, -0.8], [0.8, 0.6]]), np.array([2.0, 1.0]), np.array([[1.0, 1.0], [1.0, -1.0], [2.0, 1.0]])
Z = W * s / np.linalg.norm(W * s, axis=1, keepdims=True)
printed, M = Z.T @ Z / 3, W * s @ V.T
H = M / np.linalg.norm(M, axis=1, keepdims=True) / np.sqrt(3)
print("H^T H =", (H.T @ H).tolist(), "printed average =", printed.tolist())
assert abs(H.T @ H - printed).max() > 0.1
assert np.allclose(np.linalg.eigvalsh(H.T @ H), np.linalg.eigvalsh(printed))
