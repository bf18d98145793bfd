# Theorem 14: an invariant representation has |x_1 - nu_c|^2 = 1 + 1/(n-1)^2 < (n/(n-1))^2, so R > n/(n-1) never holds
import numpy as np

for n in (2, 3, 10, 100):
    X = np.concatenate([[[1.0], [0.0]], np.full((2, n - 1), [[0.0], [1 / (n - 1)]])], axis=1)
    R = np.linalg.norm(X[:, 0] - X[:, 1:].mean(axis=1))
    print("n =", n, "R =", R, "n/(n-1) =", n / (n - 1))
    assert n / (n - 1) > R
assert 1.1 / (n - 1) ** 2 > R**2 - 1
