# eq. 5.14 with layer norm after ReLU: (kappa - kappa(0))/(kappa(1) - kappa(0)), kappa'(1) = 1 for E phi^2 = 1
import numpy as np

kappa = lambda r: (np.sqrt(1 - r**2) + (np.pi - np.arccos(r)) * r) / np.pi  # of sqrt(2) max(0, x)
rho, alpha = 0.5, (kappa(1.0) - kappa(0.0)) / 1.0
for _ in range(5):
    rho = (kappa(rho) - kappa(0.0)) / (kappa(1.0) - kappa(0.0))
print("Psi after 5 layers:", rho / (1 - rho), "bound:", 0.5 / (1 - 0.5) * alpha**5)
assert rho / (1 - rho) > 1.5 * alpha**5
