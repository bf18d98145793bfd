# Section III: three samples, 100 neurons, 200 layers of recentring and ReLU; no sample leaves the others
import numpy as np

rng, ratios = np.random.default_rng(0), []
for _ in range(20):
    X = rng.standard_normal((12, 3))  # samples in columns
    for _ in range(200):
        Z = rng.standard_normal((100, len(X))) @ X
        X = np.maximum(Z - Z.mean(axis=1, keepdims=True), 0) / np.linalg.norm(Z)
    ratios.append(np.divide(*np.sort(np.linalg.norm(X, axis=0))[-2:]))
print("second length over the largest, mean of 20 runs:", np.mean(ratios))
assert np.mean(ratios) > 0.7
