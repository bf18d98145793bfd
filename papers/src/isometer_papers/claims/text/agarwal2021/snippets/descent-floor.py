# Theorem 50: A^T A is positive definite and the loss of gradient descent does not go to 0
import numpy as np

A, y, w = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0, 0.0]), np.zeros(2)
low, high = np.linalg.eigvalsh(A.T @ A)
for _ in range(40):
    w = w - 3 / (low + high) * 2 / 3 * A.T @ (A @ w - y)
ratio, bound = ((A @ w - y) ** 2).sum() / (y**2).sum(), np.exp(-40 / (4 * high / low))
print("loss over first loss:", ratio, "and the bound:", bound)
assert low > 0.9 and ratio > 0.6 > 10 * bound
