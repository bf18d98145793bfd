# eq. 4.6, 4.7: ratio of isometries for n = 2 samples in R^3, as columns
import numpy as np

X = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
a, n, d = np.linalg.norm(X, axis=0), 2, 3
isometry = [np.sqrt(np.linalg.det(Y.T @ Y)) / (np.trace(Y.T @ Y) / n) for Y in (X, X / a)]
ratio, mean = isometry[1] / isometry[0], a.mean()
lines = [mean**2 / a.prod() * (a**2).sum() / d / mean**2, 1 + a.var() / mean**2]
print("ratio:", ratio, "eq. 4.6, eq. 4.7:", lines, "with 1/n:", (a**2).mean() / a.prod())
assert abs(ratio - (a**2).mean() / a.prod()) < 1e-12
assert ratio > max(lines) + 0.01
