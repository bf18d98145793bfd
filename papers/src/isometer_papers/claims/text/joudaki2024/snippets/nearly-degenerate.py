# Lemma B.7, d = 1, n = 2, G_* = diag(1, e^2) and a small covariance in G: G_*^-1 G is far from I, the laws are close
import numpy as np

e = 0.01
star = np.diag([1.0, e**2])
G = star + 0.008 * e * np.array([[0.0, 1.0], [1.0, 0.0]])
M = np.linalg.inv(star) @ G
t = np.linalg.norm(M - np.eye(2)) ** 2
pinsker = np.sqrt((np.trace(M) - 2 - np.linalg.slogdet(M)[1]) / 4)  # tv is at most this
print("t =", t, "right side:", t / 100, "left side at most", pinsker)
assert pinsker < 0.9 * t / 100
