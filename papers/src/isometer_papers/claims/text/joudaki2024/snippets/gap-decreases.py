# proof idea of Theorem 6.1: the isometry gap of X falls when BN scales its rows to length 1
import numpy as np

X = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.5, 0.0, 1.0]])
gaps = []
for Y in (X, X / np.linalg.norm(X, axis=1, keepdims=True)):
    gaps.append(np.log(np.trace(Y.T @ Y) / 3) - np.log(np.linalg.det(Y.T @ Y)) / 3)
print("gap before and after BN:", gaps)
assert gaps[1] < gaps[0] - 0.1
