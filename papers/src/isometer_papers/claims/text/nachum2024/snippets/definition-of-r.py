# before eq. 21, t = 1: two neurons and two samples give rank 1 for the first time, but the first sample alone has rank 0
import numpy as np

X, W = np.eye(2), np.array([[-1.0, -1.0], [-1.0, 1.0]])  # samples in columns, neurons in rows
ranks = [int(np.linalg.matrix_rank(np.maximum(W[:r] @ X[:, :r], 0))) for r in (1, 2)]
r = 1 + ranks.index(1)
print(
    "ranks with r samples and r neurons:", ranks, "r_1 =", r, "relu(W x_1) =", np.maximum(W[:r] @ X[:, :1], 0).tolist()
)
assert r == 2
assert np.linalg.matrix_rank(np.maximum(W[:r] @ X[:, :1], 0)) == 0
