# Assumption 3.1: two samples that are equal in h_0 are equal in every layer, others are not: two invariant laws
import numpy as np

rng, d = np.random.default_rng(0), 10
h = rng.standard_normal((2, d, 3))
h[0, :, 1] = h[0, :, 0]
for _ in range(50):
    rows = (h - h.mean(axis=2, keepdims=True)) / h.std(axis=2, keepdims=True)
    h = rng.standard_normal((d, d)) / np.sqrt(d) @ np.maximum(rows, 0)
apart = np.linalg.norm(h[:, :, 0] - h[:, :, 1], axis=1)
print("distance of the first two samples after 50 layers:", apart)
assert apart[0] < 1e-9 < 0.1 < apart[1]
