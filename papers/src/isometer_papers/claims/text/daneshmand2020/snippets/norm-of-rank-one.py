# Section 4.5: for rank one the squared norm of M is d^2, its norm d
import numpy as np

H = np.outer([1.0, -1.0, 1.0], [0.6, 0.8, 1.0]) * np.sqrt(3 / 2)  # rows of length sqrt N
M = H @ H.T / 3
print("norm of M", np.linalg.norm(M), "d^2 =", 9)
assert abs(np.linalg.norm(M) - 3) < 1e-12
