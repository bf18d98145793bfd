# eq. 15 has rho^i under a sum over j: no i serves both terms of z + (z^2 - 1)/sqrt 2, for which a_1 = a_2 = 1
import numpy as np

z, w = np.polynomial.hermite_e.hermegauss(20)
w, rho = np.outer(w, w) / (2 * np.pi), 0.5
sigma = lambda u: u + (u * u - 1) / np.sqrt(2)
pair = (w * sigma(z)[:, None] * sigma(rho * z[:, None] + np.sqrt(1 - rho**2) * z)).sum()
printed = 2 * rho ** np.arange(12)
print("E sigma(z1) sigma(z2):", pair, "; sum with rho^i, i from 0:", printed)
assert abs(pair - rho - rho**2) < 1e-12 and abs(pair - printed).min() > 0.2
