# Remark 5.9, proof of Theorem 5.11, Figure 5.2: kappa'(1) = sum k c_k^2 = 1 and kappa(0) = 1/pi for sqrt(2) max(0, x)
import numpy as np

x = np.linspace(0, 12, 200_001)
density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
slope = np.trapezoid(2 * density, x)  # kappa'(1) = E phi'^2
c0, c2 = (np.trapezoid(np.sqrt(2) * x * he * density, x) for he in (1, (x**2 - 1) / np.sqrt(2)))
print("kappa'(1) =", slope, "kappa(0) = c_0^2 =", c0**2, "c_2^2 =", c2**2)
assert abs(slope - 1) < 1e-6
assert min(c0**2, c2**2) > 0.15
