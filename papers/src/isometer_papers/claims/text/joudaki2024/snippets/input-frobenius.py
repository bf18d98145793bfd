# Section 2.1.1: all matrices H_k have Frobenius norm 1 from k = 1 on; the input H_0 is any matrix
import numpy as np

rng, H = np.random.default_rng(0), np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
M = rng.standard_normal((3, 3)) @ H
K = M / np.linalg.norm(M, axis=1, keepdims=True) / np.sqrt(3)
print("norms of H_0 and H_1:", np.linalg.norm(H), np.linalg.norm(K))
assert np.linalg.norm(H) > 3
