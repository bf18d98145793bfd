# Theorems 3, 5, 19: for odd F (here the identity) s h^T keeps h up to sign, so that every h has its own invariant law
import numpy as np

rng, d, h = np.random.default_rng(0), 3, np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]])
H = np.array([1.0, -1.0, 1.0])[:, None] * h[:, None, :]  # two chains, samples in columns
for _ in range(1000):
    H = H + rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ H / (8 * d)
    H /= np.sqrt((H**2).mean(axis=2, keepdims=True))
print("rows of the two chains after 1000 layers:", H.round(12).tolist())
assert np.allclose(H * H[:, :, :1], h[:, None, :])
