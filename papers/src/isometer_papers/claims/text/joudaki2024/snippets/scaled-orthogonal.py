# under Lemma 6.2: X = 2Q is not orthogonal by XX^T = I, and no weights increase its isometry, which is 1
import numpy as np

X = 2 * np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
isometry = np.linalg.det(X.T @ X) ** (1 / 3) / (np.trace(X.T @ X) / 3)
print("XX^T:", X @ X.T, "isometry:", isometry)
assert abs(isometry - 1) < 1e-12
