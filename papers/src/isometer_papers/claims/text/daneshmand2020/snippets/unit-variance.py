# Section 1.1: BN as printed divides centred rows by the second moment of the uncentred ones: no unit variance
import numpy as np

H = np.array([[1.0, 3.0, 5.0], [0.0, 1.0, -1.0]])  # samples in columns
G = H - H.mean(axis=1, keepdims=True)
BN = G / np.sqrt(np.diag(H @ H.T / 3))[:, None]
print("means", BN.mean(axis=1), "variances", BN.var(axis=1), "which should be 1")
assert BN.var(axis=1)[0] < 0.3
