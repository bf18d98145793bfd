# under Theorem 6.3: the rows of X = BN(.) have length 1, so that the eigenvalues of XX^T sum to d
import numpy as np

X = np.random.default_rng(1).standard_normal((4, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
values = np.linalg.eigvalsh(X @ X.T)
print("eigenvalues:", values, "sum:", values.sum())
assert values.max() > 1.5
