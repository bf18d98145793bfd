# §2.2.2: the rank of a linear network's representations does not change with depth; they come close to rank one
import numpy as np

rng = np.random.default_rng(0)
H = rng.standard_normal((4, 3))
for _layer in range(8):
    H = rng.standard_normal((4, 4)) @ H
values = np.linalg.svd(H, compute_uv=False)
print("rank", np.linalg.matrix_rank(H), "singular values over the largest:", values / values[0])
assert np.linalg.matrix_rank(H) == 3
assert values[1] < 0.2 * values[0]
