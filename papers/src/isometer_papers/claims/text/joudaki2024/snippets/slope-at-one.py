# Remark 5.9, proof of Theorem 5.11, Figure 5.2: ReLU is not linear and has kappa'(1) = sum k c_k^2 = 1, which is case 3
import numpy as np

t = 1e-4
kappa = lambda rho: (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi  # of sqrt(2) max(0, x)
slope = (np.pi - np.arccos(np.cos(t))) / np.pi  # kappa'(rho) = 1 - arccos(rho)/pi
print("kappa(0) =", kappa(0.0), "kappa(1) =", kappa(1.0), "kappa'(cos t) =", slope, "and c_2^2 =", 1 / (2 * np.pi))
assert kappa(0.0) > 0.3
assert abs(slope - (1 - t / np.pi)) < 1e-12
assert abs((kappa(0.01) + kappa(-0.01) - 2 * kappa(0.0)) / 0.01**2 - 1 / np.pi) < 1e-3  # 2 c_2^2
