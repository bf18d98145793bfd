# W H = V' S^(1/2) V^T / |S^(1/2)|, with V transposed
import numpy as np

s, V = np.array([0.8, 0.6]), np.array([[0.6, -0.8], [0.8, 0.6]])  # U = I, V' = V
H, W = np.diag(s) @ V.T, V @ np.diag(s**-0.5) / np.sqrt(s.sum())
with_v, with_vt = (V @ np.diag(s**0.5) @ last / np.sqrt(s.sum()) for last in (V, V.T))
print("W H =", (W @ H).tolist(), "with V:", with_v.tolist(), "with V^T:", with_vt.tolist())
assert np.allclose(W @ H, with_vt)
assert abs(W @ H - with_v).max() > 0.5
