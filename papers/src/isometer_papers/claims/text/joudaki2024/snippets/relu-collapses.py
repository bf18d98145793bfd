# Chapter 7: a random ReLU network makes two orthogonal samples nearly parallel
import numpy as np

rng, d = np.random.default_rng(1), 400
h = np.sqrt(d) * np.linalg.qr(rng.standard_normal((d, 2)))[0]  # samples as columns
found = []
for _layer in range(8):
    h = np.maximum(rng.standard_normal((d, d)) * np.sqrt(2 / d) @ h, 0)
    found.append(float(np.sqrt(np.linalg.det(h.T @ h)) / (np.sum(h**2) / 2)))
print("isometry by layer:", found)
assert max(found) < 0.97
assert min(found) < 0.65
