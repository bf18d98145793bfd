# Footnote 12 and Lemma 21: the rank of s h^T grows to two in one layer of tanh with gamma = 1/(8d), and M changes
import numpy as np

H, W, gamma = np.outer([1.0, 1.0], [1.4, 0.2]), np.array([[1.5, 0.0], [0.0, -1.5]]), 1 / 16
K = H + gamma * W @ np.tanh(H)
K /= np.sqrt((K**2).mean(axis=1, keepdims=True))
print("singular values", np.linalg.svd(H)[1], np.linalg.svd(K)[1], "M_12", H[0] @ H[1] / 2, K[0] @ K[1] / 2)
assert np.linalg.matrix_rank(H) == 1
assert np.linalg.matrix_rank(K, tol=1e-3) == 2
assert K[0] @ K[1] / 2 < 1 - 1e-5
