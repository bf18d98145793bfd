# replacing diag(MM^T) by MM^T: for d > n it has rank n and no inverse; its pseudo-inverse root does orthogonalise
import numpy as np

M = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 1.0]])  # d = 3 features, n = 2 samples in columns
U, s, Vt = np.linalg.svd(M, full_matrices=False)
print("d =", len(M), "rank of MM^T:", np.linalg.matrix_rank(M @ M.T))
assert np.linalg.matrix_rank(M @ M.T) < len(M)
whitened = U @ np.diag(1 / s) @ U.T @ M  # on the range of M
assert np.allclose(whitened.T @ whitened, np.eye(2))
