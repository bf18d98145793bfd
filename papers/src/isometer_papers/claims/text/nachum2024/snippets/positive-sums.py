# after eq. 41 and 71: at the first stable layer from (0, 1, 2, 3, 4) no row has two clusters, so L is empty and
# A = B = C = D = 0 at T = 1
import numpy as np

X, n = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]]), 5
while max(len(np.unique(row)) for row in X) > 3:
    C = X - X.mean(axis=1, keepdims=True)
    X = np.maximum(np.concatenate([C, -C]), 0)
zeros = np.array([(row == 0).sum() if len(np.unique(row)) == 2 else 0 for row in X])
sums = [float((X.max(axis=1) ** 2)[zeros == k].sum()) for k in (1, n - 1, 2, n - 2)]
print("clusters of the rows:", [len(np.unique(row)) for row in X], "A, B, C, D:", sums)
assert sums == [0, 0, 0, 0]
