# Section 2.2.3: entries 0 or +-5 with mean 0 and variance 1, d = 100, n = 20: sigma_min is below sqrt d - sqrt n
import numpy as np

rng, d, n = np.random.default_rng(0), 100, 20
H = rng.choice([0.0, 5.0, -5.0], (200, d, n), p=[0.96, 0.02, 0.02])
least = np.linalg.svd(H, compute_uv=False)[:, -1]
print("variance:", H.var(), "mean and largest sigma_min of 200:", least.mean(), least.max(), "bound:", d**0.5 - n**0.5)
assert least.mean() < d**0.5 - n**0.5 - 0.5
