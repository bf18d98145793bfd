# eq. 62: M(H) is a matrix, and what follows it a number: that of its squared entries
import numpy as np

H = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]])
M = H @ H.T / 4
print("M(H):", M.shape, "squared norm of the eigenvalues:", (np.linalg.eigvalsh(M) ** 2).sum(), "of M:", (M**2).sum())
assert M.size > 1
