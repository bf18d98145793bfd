# Discussion: no ReLU neuron, with any weights and bias, fires for the centroid of a triangle and for no corner
import numpy as np

X = np.array([[0.0, 4.0, 2.0, 2.0], [0.0, 0.0, 3.0, 1.0]])  # three corners and their centroid, in columns
rng = np.random.default_rng(0)
Z = rng.standard_normal((100_000, 2)) @ X + 5 * rng.standard_normal((100_000, 1))
alone = (Z[:, 3] > 0) & (Z[:, :3] <= 0).all(axis=1)
print("neurons that fire for the centroid only:", alone.sum(), "of", (Z[:, 3] > 0).sum())
assert np.allclose(Z[:, :3].mean(axis=1), Z[:, 3]), "its preactivation is the mean of the others"
assert not alone.any()
