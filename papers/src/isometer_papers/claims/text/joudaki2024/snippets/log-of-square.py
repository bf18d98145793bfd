# under Lemma C.16: J_BN has the norm 1/(shortest row); for X = 2Q its log is above -log(lambda_d)
import numpy as np

X = 2 * np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
size, least = -np.log(np.linalg.norm(X, axis=1).min()), np.linalg.eigvalsh(X @ X.T)[0]
print("log of the norm:", size, "printed bound:", -np.log(least), "from Lemma C.16:", -np.log(least) / 2)
assert size > -np.log(least) + 0.5
