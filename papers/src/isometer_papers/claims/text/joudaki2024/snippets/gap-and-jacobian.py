# Proof idea of Theorem 6.5: log |J_BN| is above the gap itself; X = diag(1.2, ...) with tr XX^T = 2
import numpy as np

squares = np.array([1.2, 0.8])  # of the rows of X, which are orthogonal
gap = -0.5 * np.log(squares).sum()
log_norm = -0.5 * np.log(squares.min())  # |J_BN| = 1/(length of the shortest row)
print("log |J_BN| =", log_norm, "gap =", gap, "d gap + 1 =", 2 * gap + 1)
assert log_norm > 5 * gap
assert log_norm < 2 * gap + 1
