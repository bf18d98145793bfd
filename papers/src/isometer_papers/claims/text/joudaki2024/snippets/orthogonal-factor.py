# under Theorem 6.3: for an orthogonal X = BN(.) all eigenvalues are 1 and so is the factor
import numpy as np

d = 3
X = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
values = np.linalg.eigvalsh(X @ X.T)
factor = 1 / (1 - ((values - 1) ** 2).sum() / (2 * d**2 * (d + 2)))
print("rows' lengths:", np.linalg.norm(X, axis=1), "factor:", factor)
assert abs(factor - 1) < 1e-12
