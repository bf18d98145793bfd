# Appendix F.2: V = Q equates a number with a matrix; here V = 0, and no entry of Q is 0
import numpy as np

Q = np.array([[2.0, 2.0, 1.0], [-2.0, 1.0, 2.0], [1.0, -2.0, 2.0]]) / 3
V = np.linalg.norm(Q.T @ Q / (Q**2).sum() - np.eye(3) / 3)
print("V =", V, "and Q =", Q)
assert V < 1e-12 < abs(Q).min()
