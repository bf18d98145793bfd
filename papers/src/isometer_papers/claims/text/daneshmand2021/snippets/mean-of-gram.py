# Lemma 6: the mean of C = H^T H of the next layer is diagonal in the basis V of the samples, not as it is defined
import numpy as np

rng, d = np.random.default_rng(0), 50
V = np.array([[0.6, -0.8], [0.8, 0.6]])
H = np.eye(d)[:, :2] * [0.9, np.sqrt(0.19)] @ V.T
M = rng.standard_normal((2000, d, d)) @ H
K = M / np.linalg.norm(M, axis=2, keepdims=True) / np.sqrt(d)
C = (np.swapaxes(K, 1, 2) @ K).mean(axis=0)
print("mean of C:", C, "and in the basis V:", V.T @ C @ V, sep="\n")
assert abs(C[0, 1]) > 0.05
