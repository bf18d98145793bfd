# proof of Lemma 40: Σ = (2, 1; 1, 3); vectors of lengths 2 and 3 with u·v = 1 give variances 4 and 9
import numpy as np

u, v = np.array([2.0, 0.0]), np.array([0.5, np.sqrt(9 - 0.25)])
z = np.random.default_rng(0).standard_normal((100_000, 2)) @ np.array([u, v]).T
print(
    "lengths:", np.linalg.norm(u), np.linalg.norm(v), "u·v =", u @ v, "covariance of (u·g, v·g):", np.cov(z.T).tolist()
)
assert abs(z.var(axis=0) - [4, 9]).max() < 0.1
