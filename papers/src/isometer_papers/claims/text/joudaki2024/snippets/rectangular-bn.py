# eq. 6.4 for X of d = 2 rows and n = 3 columns: the sum to d leaves out an entry of each row
import numpy as np

X = np.array([[1.0, 2.0, 2.0], [2.0, 3.0, 6.0]])
left = np.diag(np.diag(X @ X.T) ** -0.5) @ X
right = X / np.sqrt((X[:, :2] ** 2).sum(axis=1, keepdims=True))
print("diag(XX^T)^(-1/2) X:", left, "entries of eq. 6.4:", right, sep="\n")
assert np.abs(left - right).max() > 0.5
