# eq. C.99: for an orthogonal X both gaps are 0, so that "at least" is certain
import numpy as np

rng, d = np.random.default_rng(0), 3
W = np.linalg.qr(rng.standard_normal((d, d)))[0]
rows = np.linalg.norm(W @ np.eye(d), axis=1)
before, after = 0.0, 0.0 + np.log(rows**2).mean().round(12)  # gap of BN(WX) = gap of X + mean log of squared lengths
chance, bound = float(after >= (1 - 1 / (4 * d**2)) * before), (1 - 1 / (2 * d**2)) / (1 - 1 / (4 * d**2))
print("gaps", before, after, "chance", chance, "bound", bound)
assert chance > bound
