# eq. 48: with rows (0, c, c, c), (0, 0, 0, c) and all their descendants the ratio is eq. 49, twice eq. 48
import numpy as np

X = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])  # one row in L_1, one in L_2, n = 4
for _ in range(14):
    C = X - X.mean(axis=1, keepdims=True)
    X = np.maximum(np.concatenate([C, -C]), 0)
ratio, eq48, eq49 = (X[:, 1] ** 2).sum() / (X[:, 0] ** 2).sum(), 1 / 16 / (9 / 16 + 1 / 16), 2 / (9 + 1)
print("ratio:", ratio, "eq. 48:", eq48, "eq. 49:", eq49)
assert abs(ratio - eq49) < 1e-9 < 0.05 < abs(ratio - eq48)
