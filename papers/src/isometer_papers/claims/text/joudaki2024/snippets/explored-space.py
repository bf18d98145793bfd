# §3.4.1, eq. 3.1: with linear phi and BN of § 3.2 the rows of W BN(h) sum to 0, whatever W is; h has full rank
import numpy as np

rng = np.random.default_rng(1)
h = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
bn = (h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True)
sums = [np.abs((rng.standard_normal((3, 3)) @ bn).sum(axis=1)).max() for _ in range(100)]
print("rank of h:", np.linalg.matrix_rank(h), "sums of the rows of W BN(h):", max(sums))
assert np.linalg.matrix_rank(h) == 3 and max(sums) < 1e-12
