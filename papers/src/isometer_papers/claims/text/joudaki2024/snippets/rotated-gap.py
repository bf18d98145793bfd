# Corollaries 6.4 and C.6: X' = WX has the gap of X for every orthogonal W, while the bound is lower
import numpy as np

d, X = 3, np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.6, 0.8]])  # rows of length 1
W = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
gap, rotated = (-np.linalg.slogdet(Y @ Y.T)[1] / d for Y in (X, W @ X))  # tr YY^T = d for both
bound = gap + np.log(1 - ((np.linalg.eigvalsh(X @ X.T) - 1) ** 2).sum() / (2 * d**2 * (d + 2)))
print("gap of X:", gap, "of WX:", rotated, "bound:", bound)
assert rotated > bound + 0.01
