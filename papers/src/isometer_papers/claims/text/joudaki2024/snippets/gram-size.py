# eq. 3.2 for d = 4 units and n = 3 samples: the printed product is d x d, the matrix of inner products n x n
import numpy as np

h = np.random.default_rng(0).standard_normal((4, 3))
A = np.maximum((h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True), 0)
print("printed:", (A @ A.T / 4).shape, "inner products of the samples:", (A.T @ A / 4).shape)
assert (A @ A.T).shape != (3, 3) == (A.T @ A).shape
