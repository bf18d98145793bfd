# Section 7.1: off-diagonal entries of M are 1 in absolute value where two rows are parallel
import numpy as np

H = np.array([[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0], [1.0, 0.0, 1.0]])
H *= np.sqrt(3) / np.linalg.norm(H, axis=1, keepdims=True)
print(H @ H.T / 3)
assert abs((H @ H.T / 3)[0, 1] + 1) < 1e-15
