# Theorem 5.8: phi(x) = x has kappa(0) = 0 and kappa(1) = 1, and every rho is a fixed point
import numpy as np

nodes, weights = np.polynomial.hermite_e.hermegauss(20)
X, Z = np.meshgrid(nodes, nodes)
rho = np.array([0.0, 0.3, -0.7, 1.0])
Y = rho[:, None, None] * X + np.sqrt(1 - rho**2)[:, None, None] * Z
kappa = (np.outer(weights, weights) * X * Y).sum(axis=(1, 2)) / (2 * np.pi)
print("rho =", rho, "kappa(rho) =", kappa)
assert np.abs(kappa - rho).max() < 1e-12
