# Figure 6: the fluctuation of Q^T Q for sigmoid is a third of that for ReLU, at n = 4 and d = 64
import numpy as np

rng, Q = np.random.default_rng(0), np.random.default_rng(1).standard_normal((2, 20, 64, 4))  # ReLU and sigmoid, 20 runs
grams = []
for _ in range(150):
    M = rng.standard_normal((20, 64, 64)) @ np.stack([np.maximum(Q[0], 0), 1 / (1 + np.exp(-Q[1]))])
    Q = M / np.linalg.norm(M, axis=3, keepdims=True)
    grams.append(np.swapaxes(Q, 2, 3) @ Q / 64)
found = np.linalg.norm(grams[80:] - np.mean(grams[80:], axis=(0, 2), keepdims=True), axis=(3, 4)).mean(axis=(0, 2))
print("ReLU and sigmoid:", found)
assert found[0] > 1.5 * found[1]
