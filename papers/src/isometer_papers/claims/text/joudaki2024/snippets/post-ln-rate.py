# eq. 5.14 with layer norm after ReLU: rho -> (kappa(rho) - kappa(0))/(kappa(1) - kappa(0)), and kappa'(1) = kappa(1)
import numpy as np

rho, Psi0 = 0.5, 0.5 / (1 - 0.5)
alpha = (1 - 1 / np.pi) / 1  # of sqrt(2) max(0, x), whose kappa(0) is 1/pi
for _ in range(5):
    kappa = (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi
    rho = (kappa - 1 / np.pi) / (1 - 1 / np.pi)
print("Psi after 5 layers:", rho / (1 - rho), "bound:", Psi0 * alpha**5)
assert rho / (1 - rho) > 1.5 * Psi0 * alpha**5
