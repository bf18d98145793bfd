# Proof idea of Theorem 6.5: eigenvalues of a rotation are not 1, its singular values are
import numpy as np

W = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
values, singular = np.linalg.eigvals(W), np.linalg.svd(W, compute_uv=False)
print("eigenvalues:", values, "moduli:", abs(values), "singular values:", singular)
assert abs(values - 1).max() > 0.5
assert abs(singular - 1).max() < 1e-12
