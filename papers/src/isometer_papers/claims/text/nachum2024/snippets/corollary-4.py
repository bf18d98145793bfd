# Corollary 4: no two columns of X are collinear, but the centred ones are, and no number of neurons gives rank 3
import numpy as np

X = np.array([[1.0, 2.0, 6.0], [1.0, 1.0, 1.0]])  # samples in columns
assert all(abs(np.linalg.det(X[:, pair])) > 0.5 for pair in ([0, 1], [0, 2], [1, 2]))
Z = np.random.default_rng(0).standard_normal((10_000, 2)) @ X
Z = (Z - Z.mean(axis=1, keepdims=True)) / Z.std(axis=1, keepdims=True)
rank = np.linalg.matrix_rank(np.maximum(Z, 0))
print("rank with 10000 neurons:", rank, "; gamma(X - mean) = 1/2 promises 3 after n/gamma = 6 on average")
assert rank < 3
