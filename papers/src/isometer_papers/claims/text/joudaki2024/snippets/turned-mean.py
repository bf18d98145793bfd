# Lemma A.3: for H = U diag(s) V' the mean of C is V diag(p) V', which is not diagonal
import numpy as np

rng, V = np.random.default_rng(0), np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
H = np.vstack([np.diag(np.sqrt([0.9, 0.1])), np.zeros((2, 2))]) @ V.T
rows = rng.standard_normal((200_000, 4)) @ H
rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
C = rows.T @ rows / len(rows)
print("the mean of C:", C.round(3).tolist(), "; in the basis V:", (V.T @ C @ V).round(3).tolist())
assert abs(C[0, 1]) > 0.2 > 0.01 > abs((V.T @ C @ V)[0, 1])
