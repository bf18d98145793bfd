# Section 3.3.4, linear, BN of section 3.2: rows of BN(h) sum to 0, so that 1^T G 1 = 0, while 1^T I 1 = n
import numpy as np

h = np.random.default_rng(0).standard_normal((1000, 4))
A = (h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True)
G = A.T @ A / 1000
print("G =", G, "sum of all entries:", G.sum(), sep="\n")
assert abs(G.sum()) < 1e-9
assert G[0, 1] < -0.2
