# §3.3: n = 5 noisy unit vectors in d = 3 dimensions have a Gram matrix of rank 3, so λ_min = 0
import numpy as np

x = np.ones((5, 3)) + 0.3 * np.random.default_rng(0).standard_normal((5, 3))
x /= np.linalg.norm(x, axis=1, keepdims=True)
values = np.linalg.eigvalsh(x @ x.T)
print("eigenvalues:", values, "; of three of them:", np.linalg.eigvalsh(x[:3] @ x[:3].T))
assert values[0] < 1e-12
