# d = 3 features, 50 samples in a plane: Sigma has no inverse, however many samples there are
import numpy as np

rng = np.random.default_rng(0)
H = rng.standard_normal((3, 2)) @ rng.standard_normal((2, 50))  # samples in columns
values = np.linalg.svd(H, compute_uv=False)
print("singular values:", values)
assert values[2] < 1e-12 * values[0]
