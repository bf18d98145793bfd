# after Theorem 5.8: kappa(rho) = rho^2 has alpha = 1/2; near 1 the covariance does not contract by it, Psi does
import numpy as np

rho = np.array([0.5, 0.9, 0.99])
kappa = rho**2
psi = [values / (1 - values) for values in (rho, kappa)]
print("kappa/rho =", kappa / rho, "Psi(kappa)/Psi(rho) =", psi[1] / psi[0])
assert max(kappa / rho) > 0.98
assert max(psi[1] / psi[0]) < 0.5
