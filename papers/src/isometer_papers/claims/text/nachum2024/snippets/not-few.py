# Section III, step 2: x_1 at 2.5 radii of the cluster; where w nu - mu > 0, almost half of the cluster is negative
import numpy as np

rng = np.random.default_rng(0)
cluster = rng.standard_normal((10, 19))
X = np.concatenate([8 * np.eye(10)[:, :1], cluster - cluster.mean(axis=1, keepdims=True)], axis=1)
Z = rng.standard_normal((20_000, 10)) @ X
Z -= Z.mean(axis=1, keepdims=True)
few = (Z[Z[:, 1:].mean(axis=1) > 0, 1:] < 0).mean()
print("share of the cluster with negative entries:", few)
assert few > 0.4
