# eq. 44: the left side of eq. 39 is diagonal, the right side of eq. 44 is not; F = tanh
import numpy as np

rng, S, g = np.random.default_rng(0), np.diag([1.0, -1.0, 1.0]), 0.5
H, W = rng.standard_normal((3, 4)), rng.uniform(-(3**0.5), 3**0.5, (3, 3))
A, B = H + g * S @ W @ S @ np.tanh(H), S @ H + g * W @ np.tanh(S @ H)
print("left", np.diag(np.diag(A @ A.T)).round(3).tolist(), "right", (B @ B.T).round(3).tolist())
assert abs(B @ B.T - np.diag(np.diag(A @ A.T))).max() > 0.1
assert np.allclose(np.diag(B @ B.T), np.diag(A @ A.T))
