# E.3: λ_min(A'A) > 0 (independent columns) does not make y attainable
import numpy as np

A, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0, 0.0])  # three samples in rows
w = np.linalg.lstsq(A, y, rcond=None)[0]
loss = ((A @ w - y) ** 2).mean()
print("λ_min(A'A) =", np.linalg.eigvalsh(A.T @ A)[0], "and the least loss is", loss)
assert np.linalg.eigvalsh(A.T @ A)[0] > 0.9
assert loss > 0.4
