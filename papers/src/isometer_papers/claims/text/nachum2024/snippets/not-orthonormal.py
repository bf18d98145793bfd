# linear layers of width 32 with rescaling alone, four samples: the gap does not go to 0 with depth
import numpy as np

rng, d, n, gaps = np.random.default_rng(0), 32, 4, []
H = rng.standard_normal((d, n))  # samples in columns
for _ in range(2000):
    Z = rng.standard_normal((d, d)) @ H
    H = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    gaps.append(np.linalg.norm(H.T @ H / d - np.eye(n) / n))
print("mean gap at layers 101 to 200 and 1001 to 2000:", np.mean(gaps[100:200]), np.mean(gaps[1000:]))
assert np.mean(gaps[1000:]) > 0.1
