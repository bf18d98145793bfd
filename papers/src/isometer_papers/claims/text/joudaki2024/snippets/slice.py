# eq. 2.6: V has orthonormal columns, a 2 x 2 slice V' of its rows is not orthogonal, and the gap grows (rank one)
import numpy as np

V = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, -1.0]]) / 2  # n = 4, d = 2
H = np.eye(2) @ V.T / np.sqrt(2)  # U = I, equal singular values
W = V[:2] @ np.diag([2**0.25] * 2) / np.sqrt(2 / 2**0.5)
gaps = [np.linalg.norm(A.T @ A / (A**2).sum() - np.eye(4) / 4) for A in (H, W @ H)]
print("V'^T V' =", (V[:2].T @ V[:2]).tolist(), "gaps of H and W H:", gaps, "rank", np.linalg.matrix_rank(W @ H))
assert gaps[1] > 1.5 * gaps[0]
assert not np.allclose(V[:2].T @ V[:2], np.eye(2))
