# Proof of Theorem 4.3: D = diag(a_i/sqrt(d)) belongs to samples of length sqrt(d), not to x_i/|x_i|
import numpy as np

X = np.array([[1.0, 3.0], [2.0, 0.0], [2.0, 4.0]])  # n = 2 samples in R^3, as columns
a, d = np.linalg.norm(X, axis=0), 3
G, scaled = X.T @ X, (X / a).T @ (X / a)
printed = np.linalg.det(scaled) * np.prod(a / np.sqrt(d)) ** 2
print("det G =", np.linalg.det(G), "and as printed", printed)
assert np.linalg.det(G) > 8 * printed
