# Section 5.4: the coefficients of kappa are c_k^2; those of phi = (3 he_1 - 4 he_3)/5 are 3/5 and -4/5
import numpy as np

c, rho = np.array([0.0, 0.6, 0.0, -0.8]), 0.5
k = np.arange(4)
print("sum c_k rho^k =", c @ rho**k, "and kappa(rho) =", c**2 @ rho**k, "; at 1:", c.sum(), (c**2).sum())
assert abs(c @ rho**k - c**2 @ rho**k) > 0.1
assert c.sum() < 0
