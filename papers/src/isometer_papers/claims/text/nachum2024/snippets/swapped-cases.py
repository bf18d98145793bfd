# Section III, after step 3: more points map to zero where w nu - mu < 0, not where it is > 0
import numpy as np

rng = np.random.default_rng(0)
cluster = rng.standard_normal((3, 19))
X = np.concatenate([[[8.0], [0.0], [0.0]], cluster - cluster.mean(axis=1, keepdims=True)], axis=1)
Z = rng.standard_normal((20_000, 3)) @ X
Z -= Z.mean(axis=1, keepdims=True)
below, zeros = Z[:, 1:].mean(axis=1) < 0, (Z <= 0).sum(axis=1)
print("zeros where w nu - mu > 0:", zeros[~below].mean(), "and where < 0:", zeros[below].mean())
assert zeros[~below].mean() + 1 < zeros[below].mean()
