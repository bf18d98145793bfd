# before eq. 46, n = 4: x_4 is the one sample at zero, so x_1 and x_2 stay in one cluster and are never complementary
import numpy as np

X = np.array([[1.0, 1.0, 1.0, 0.0]])
for _ in range(2):
    C = X - X.mean(axis=1, keepdims=True)
    X = np.maximum(np.concatenate([C, -C]), 0)
print("descendants after two layers:", X.tolist())
assert ((X[:, 0] > 0) == (X[:, 1] > 0)).all()
