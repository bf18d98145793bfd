# Corollary 5.7: E phi(X) phi(X) is kappa(1), not kappa(rho); phi = (he_1 + he_2)/sqrt(2), kappa = (rho + rho^2)/2
import numpy as np

nodes, weights = np.polynomial.hermite_e.hermegauss(20)
phi = (nodes + (nodes**2 - 1) / np.sqrt(2)) / np.sqrt(2)
square, kappa = weights @ phi**2 / weights.sum(), (0.5 + 0.25) / 2
print("E phi(X)^2 =", square, "and kappa(0.5) =", kappa)
assert abs(square - kappa) > 0.6
