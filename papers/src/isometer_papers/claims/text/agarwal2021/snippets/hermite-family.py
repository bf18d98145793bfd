# eq. 14 with γ²: H_2 = z² − γ², and h_2 = H_2/√(2γ²) has neither mean 0 nor square mean 1 under N(0, γ)
import numpy as np

g = 2.0
z, weight = np.polynomial.hermite_e.hermegauss(20)
z, weight = np.sqrt(g) * z, weight / weight.sum()  # N(0, γ)
printed, right = (z**2 - g**2) / np.sqrt(2 * g**2), (z**2 - g) / np.sqrt(2 * g**2)
print("mean, square: printed", weight @ printed, weight @ printed**2, "; with γ:", weight @ right, weight @ right**2)
assert abs(weight @ printed) > 0.5
assert abs(weight @ printed**2 - 1) > 0.3
