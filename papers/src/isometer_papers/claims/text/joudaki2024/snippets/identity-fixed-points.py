# Theorem 5.8: phi(x) = x has kappa(0) = 0 and kappa(1) = 1, and every rho is a fixed point
import numpy as np

nodes, weights = np.polynomial.hermite_e.hermegauss(20)
X, Z = np.meshgrid(nodes, nodes)
for rho in (0.0, 0.3, -0.7, 1.0):
    kappa = (np.outer(weights, weights) * X * (rho * X + np.sqrt(1 - rho**2) * Z)).sum() / (2 * np.pi)
    print("rho =", rho, "kappa(rho) =", kappa)
    assert abs(kappa - rho) < 1e-12
