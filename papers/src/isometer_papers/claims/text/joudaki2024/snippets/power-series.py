# Section 5.4: the coefficients of kappa are c_k^2; those of phi = (3 he_1 - 4 he_3)/5 are 3/5 and -4/5
import numpy as np

c, k = np.array([0.0, 0.6, 0.0, -0.8]), np.arange(4)
for rho in (0.5, 0.9, 1.0):
    print("rho =", rho, "sum c_k rho^k =", c @ rho**k, "and kappa(rho) =", c**2 @ rho**k)
assert c @ 0.9**k < 0 < 0.7 < c**2 @ 0.9**k
