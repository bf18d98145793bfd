# proof of Theorem 59, one layer of NormReLU, ‖x‖² = 2: the squared length after it is above γ_1⁺ as printed, which is below 1
import numpy as np

x, w = np.polynomial.legendre.leggauss(400)
x, p = 12 * x, 12 * w * np.exp(-((12 * x) ** 2) / 2) / np.sqrt(2 * np.pi)
plain = np.maximum(x + 1.5975, 0)
b, scale = p @ plain, (p @ plain**2 - (p @ plain) ** 2) ** -0.5
length = p @ (scale * (np.maximum(np.sqrt(2) * x + 1.5975, 0) - b)) ** 2
printed = 1 + (1 - 0.1572) * (0.5 - 1)  # α⁺ = 0.1572, γ_0⁻ = 0.5
print("b =", b, "scale =", scale, "length:", length, "γ_1⁺ as printed:", printed, "with γ_0⁺:", 1 + (1 - 0.1572))
assert printed < 1 < length < 1 + (1 - 0.1572)
