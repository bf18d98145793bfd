# Remark of Section III: for Gaussian inputs the odd point is the longest input in about a quarter of the runs
import numpy as np

rng, hits = np.random.default_rng(0), []
for _ in range(60):
    X = H = rng.standard_normal((12, 15))  # samples in columns
    for _ in range(60):
        Z = rng.standard_normal((100, len(H))) @ H
        H = np.maximum(Z - Z.mean(axis=1, keepdims=True), 0) / np.linalg.norm(Z)
    hits.append(np.argmax((X**2).sum(axis=0)) == np.argmax((H**2).sum(axis=0)))
print("share of runs:", np.mean(hits))
assert np.mean(hits) < 0.5
