# eq. C.84, C.85: psi does not see the scale of X, the Jacobian 1/(shortest row) does; the rows here are orthogonal
import numpy as np

d = 3
X = 0.01 * np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
psi = max(0.0, np.log(np.trace(X @ X.T) / d) - np.linalg.slogdet(X @ X.T)[1] / d)
size = -np.log(np.linalg.norm(X, axis=1).min())
print("log of the norm of J_BN:", size, "eq. C.84:", d * psi + 1, "eq. C.85:", 2 * np.sqrt(d * psi))
assert size > d * psi + 1 > 2 * np.sqrt(d * psi)
