# Figure 3a (2.4a of the thesis), without training: with depth samples of a ReLU network become less orthogonal, not more
import numpy as np

rng, gap = np.random.default_rng(0), {}
H = rng.standard_normal((20, 64, 8)) + 2 * rng.standard_normal((20, 64, 1))  # 20 networks of width 64
for layer in range(1, 41):
    H = np.maximum(rng.standard_normal((20, 64, 64)) @ H / np.sqrt(32), 0)
    G = np.swapaxes(H, 1, 2) @ H
    gap[layer] = np.linalg.norm(G / np.trace(G, axis1=1, axis2=2)[:, None, None] - np.eye(8) / 8, axis=(1, 2)).mean()
print("gap at layers 10 and 40:", gap[10], gap[40])
assert gap[40] > gap[10] + 0.01
