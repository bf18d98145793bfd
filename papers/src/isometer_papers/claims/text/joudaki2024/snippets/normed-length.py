# Proof of Theorem 5.15: after RMS norm |h|^2/d is 1, and |h|/d is 1/sqrt(d)
import numpy as np

z = np.random.default_rng(1).standard_normal(100)
h = z / np.sqrt((z**2).mean())
print("|h|/d =", np.linalg.norm(h) / 100, "|h|^2/d =", np.linalg.norm(h) ** 2 / 100)
assert np.linalg.norm(h) / 100 < 0.2
assert abs(np.linalg.norm(h) ** 2 / 100 - 1) < 1e-12
