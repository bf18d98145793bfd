# Proposition 8, F = identity: column i is no multiple of column j if that is zero
import numpy as np

H = np.outer([1.0, 2.0, -1.0], [1.0, 0.0])  # rank one, samples in columns
print("H_i =", H[:, 0], "H_j =", H[:, 1], "rank", np.linalg.matrix_rank(H), "a H_j is 0 for every a")
assert np.linalg.matrix_rank(H) == 1
assert not H[:, 1].any() and H[:, 0].any()
