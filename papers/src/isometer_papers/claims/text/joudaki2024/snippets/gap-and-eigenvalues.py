# Lemma C.8: the eigenvalues 1 +- e of a 2 x 2 matrix have a gap of about e^2/2, so that c is of order e^2
import numpy as np

e, d = 0.1, 2
c = -np.log((1 + e) * (1 - e)) / d * 16 * d  # psi = c/(16 d)
print("c =", c, "for eigenvalues", (1 - e, 1 + e), "; at e = 0.01: c =", -16 * np.log(1 - 0.01**2))
e = 0.01
assert e > 5 * -16 * np.log(1 - e**2)
