# eq. B.11: x uniform on the sphere of radius sqrt 2 in R^2, C = I, B = 1: every norm is sqrt 2, and so is their mean
import numpy as np

n, d, t = 2, 200, 1.0
x = np.random.default_rng(0).standard_normal((d, n))
x *= np.sqrt(n) / np.linalg.norm(x, axis=1, keepdims=True)
sizes = np.linalg.norm(x[:, :, None] * x[:, None, :] - np.eye(n), axis=(1, 2))
bound = np.exp(-d * t**2 / 2 / (4 * n**2 + 2 * n * t / 3))
print("least norm:", sizes.min(), "so P = 1; bound:", bound)
assert sizes.min() > t
assert bound < 0.01
