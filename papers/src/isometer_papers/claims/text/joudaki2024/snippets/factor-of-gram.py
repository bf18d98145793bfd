# Proof of Lemma A.3: C = H^T H has trace 1, A^T A has trace d
import numpy as np

W, sigma, d = np.array([[1.0, 1.0], [2.0, -1.0], [0.0, 1.0]]), np.array([0.8, 0.6]), 3
A = W * sigma / np.linalg.norm(W * sigma, axis=1, keepdims=True)
H = A / np.sqrt(d)  # the layer after W diag(sigma), in the basis V
print("C =", (H.T @ H).tolist(), "A^T A =", (A.T @ A).tolist())
assert abs(H.T @ H - A.T @ A).max() > 0.5
assert np.allclose(H.T @ H, A.T @ A / d)
