# eq. 57: rows (0, c, c, c), (0, 0, 0, c) and all their descendants; the second root has to divide. Eq. 58 and 86 likewise
import numpy as np

X, n = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]), 4  # one row in L_1, one in L_2, so that r = 1
for _ in range(14):
    C = X - X.mean(axis=1, keepdims=True)
    X = np.maximum(np.concatenate([C, -C]), 0)
cosine = X[:, 1] @ X[:, 0] / np.linalg.norm(X[:, 1]) / np.linalg.norm(X[:, 0])
print("cosine:", cosine, "printed:", 1 / 2**0.5 * ((n - 1) ** 2 + 1) ** 0.5, "divided:", 1 / (2**0.5 * 10**0.5))
assert abs(cosine - 1 / (2**0.5 * 10**0.5)) < 1e-9 and 1 / 2**0.5 * ((n - 1) ** 2 + 1) ** 0.5 > 2
