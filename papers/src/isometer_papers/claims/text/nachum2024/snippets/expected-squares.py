# Theorem 13: the matrix E X is not invariant, |E x_1|^2 is 1/pi; what is 1 is E |x_1|^2, as eq. 105-107 have it
import numpy as np

n, d = 4, 3
alpha, X = n**2 / (n**2 - 2 * n + 2), np.array([[1.0, 0, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]])  # invariant, n = 4
W = np.random.default_rng(0).standard_normal((200_000, d, 2)) * np.sqrt(2 * alpha / d)
Y = np.maximum(W @ (X - X.mean(axis=1, keepdims=True)), 0)
mean, square = Y.mean(axis=0), (Y**2).sum(axis=1).mean(axis=0)
print("|E x_1|^2:", mean[:, 0] @ mean[:, 0], "E x_1 . E nu:", mean[:, 0] @ mean[:, 1], "E |x|^2:", square[:2])
assert abs(mean[:, 0] @ mean[:, 0] - 1 / np.pi) < 0.02
assert mean[:, 0] @ mean[:, 1] > 0.09
assert abs(square[0] - 1) < 0.02
