# Theorem 3: X = (0) has no two collinear columns, gamma = 1, and ReLU(W X) has rank 0 for every W
import numpy as np

rng, X = np.random.default_rng(0), np.zeros((2, 1))
rank = max(np.linalg.matrix_rank(np.maximum(rng.standard_normal((20, 2)) @ X, 0)) for _ in range(100))
print("rank with 20 neurons:", rank, "and E[y] should be at most n/gamma = 1")
assert rank == 0
