# before Theorem 14: measured against the distance of x_1, the cluster grows; all distances shrink, that of x_1 more
import numpy as np

X, n = np.array([[4.0, 0.0, 0.0], [0.0, 0.05, -0.05]]), 3  # samples in columns, R = 4 > n/(n-1)
C, d, alpha = X - X.mean(axis=1, keepdims=True), 400, n**2 / ((n - 1) ** 2 * 16)
W = np.random.default_rng(0).standard_normal((2000, d, 2)) * np.sqrt(2 * alpha / d)
Y, center = np.maximum(W @ C, 0), np.maximum(W @ C[:, 1:].mean(axis=1), 0)
inner, outer = ((Y[:, :, 1] - Y[:, :, 2]) ** 2).sum(axis=1).mean(), ((Y[:, :, 0] - center) ** 2).sum(axis=1).mean()
print("cluster over distance of x_1, squared: before", 0.01 / 16, "after", inner / outer, "both:", inner, outer)
assert inner < 0.01
assert inner / outer > 1.5 * 0.01 / 16
