# eq. A.13 for d = 3: exponents of sigma_i^2 of a product of 4000 Gaussian matrices, by QR
import numpy as np
from scipy.special import digamma

rng, Q, total = np.random.default_rng(0), np.eye(3), np.zeros(3)
for _ in range(4000):
    Q, R = np.linalg.qr(rng.standard_normal((3, 3)) @ Q)
    total += np.log(np.diag(R) ** 2)
printed = (np.log(2) + digamma((3 - np.arange(3)) / 2)) / 2
print("(1/l) log sigma_i^2 =", total / 4000, "printed:", printed, "without 1/2:", 2 * printed)
assert abs(total / 4000 - 2 * printed).max() < 0.1 < 0.15 < abs(total / 4000 - printed).max()
