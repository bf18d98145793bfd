# Figure 5: angles at layer 30, first for Z/σ with the σ of eq. 2 and no mean subtracted, then over the root mean square
import numpy as np

rng, angles = np.random.default_rng(0), []
for size in (np.std, lambda z, axis: np.sqrt((z**2).mean(axis=axis))):
    h = rng.standard_normal((50, 200))  # samples in rows
    for w in rng.standard_normal((30, 200, 200)):
        h = np.maximum(h @ w / size(h @ w, axis=0), 0)
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    angles.append(np.degrees(np.arccos(np.clip((unit @ unit.T)[np.triu_indices(50, 1)], -1, 1))).mean())
print("mean angles:", angles)
assert angles[0] < 45 and angles[1] > 55
