# Corollary 4.5 with a-bar = (1/n) sum over d rows: d = 2 orthogonal features of length 1, n = 4 samples
import numpy as np

X = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]]) / 2
a, (d, n) = np.linalg.norm(X, axis=1), X.shape
C = X @ X.T  # the same after BN
isometry, printed = np.sqrt(np.linalg.det(C)) / (np.trace(C) / d), a.sum() / n
print("isometry before and after:", isometry, "bound:", isometry * (1 + ((a - printed) ** 2).mean() / printed**2))
assert isometry * (1 + ((a - printed) ** 2).mean() / printed**2) > 1.5 * isometry
