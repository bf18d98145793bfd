# proof of Theorem 59: Σ bias(γ_l) is below bias(0.5)/α⁻, not equal to it; c = −1.5975
import numpy as np

x = np.linspace(-12, 12, 200_001)
w = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()


def f(g):
    return np.maximum(np.sqrt(g) * x + 1.5975, 0) - w @ np.maximum(x + 1.5975, 0)  # NormReLU up to its scale


bias, alpha = lambda g: (w @ f(g)) ** 2 / (w @ f(g) ** 2), 2 * (w @ f(0.5) ** 2) / (w @ f(1) ** 2) - 1
total = sum(bias(1 - 0.5 * (1 - alpha) ** k) for k in range(60))
print("sum:", total, "; bias(0.5)/α⁻:", bias(0.5) / alpha)
assert total < 0.6 * bias(0.5) / alpha
