# table of C.4: the closed form for ReLU has the denominator 2π, not −1/2π
import numpy as np

rho = 0.5
z, weight = np.random.default_rng(0).standard_normal((2, 1_000_000)), 1e-6
dual = weight * (np.maximum(z[0], 0) * np.maximum(rho * z[0] + np.sqrt(1 - rho**2) * z[1], 0)).sum()
arc = np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho
print("E max(X, 0) max(X', 0) =", dual, "; over 2π:", arc / (2 * np.pi), "; over −1/2π:", arc / (-1 / (2 * np.pi)))
assert abs(dual - arc / (2 * np.pi)) < 0.01 < dual - arc / (-1 / (2 * np.pi))
