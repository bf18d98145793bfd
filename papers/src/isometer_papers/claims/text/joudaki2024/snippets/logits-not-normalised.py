# eq. C.80, d = 4, two classes, one layer with W = I: the term of the logits, k = L, is negative
import numpy as np

X = np.array([[1.0, -1, 0, -1], [1, 1, 2, -1], [2, -1, -1, -2], [2, 2, 2, 1]])
X /= np.linalg.norm(X, axis=1, keepdims=True)  # BN leaves it as it is, and its Jacobian has norm 1
V, G = np.array([[1, 1, 1, 1], [1, -1, 1, -1]]) / 2, np.array([[2.0, 0, 1, -1], [0, 2, 1, 1]])  # W^L, loss by H^L
back = V.T @ G
left = np.log(np.linalg.norm((back - X * (X * back).sum(axis=1, keepdims=True)) @ X.T))
logits = -np.log(np.linalg.norm(V @ X, axis=1).min())
right = np.log(np.linalg.norm(G)) + logits + np.log(np.linalg.norm(X, 2))
print("left", left, "right", right, "of which the logits", logits)
assert left > right + 0.2
