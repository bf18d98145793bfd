# Theorem 12 with α_σ of Theorem 37: a smooth clip at ±2, ‖x‖² = ‖y‖² = ½, cosine 0.4999, three layers
import numpy as np
from scipy.special import erf

x, F = np.linspace(-9, 9, 20001), lambda u: u * erf(3 * u) + np.exp(-9 * u * u) / np.sqrt(9 * np.pi)
w = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
sigma = lambda g: (F(np.sqrt(g) * x + 2) - F(np.sqrt(g) * x - 2)) / np.sqrt(w @ (F(x + 2) - F(x - 2)) ** 2)  # σ(√γ x)
length, linear = lambda g: w @ sigma(g) ** 2, lambda g: (w @ (x * sigma(g))) ** 2 / (w @ sigma(g) ** 2)  # 1 − μ^γ
mu, alpha = 1 - linear(1), min(2 * length(0.5) - 1, (1 - length(1.001)) / 0.001 + 1)
cosine = 0.4999 * linear(0.5) * linear(length(0.5)) * linear(length(length(0.5)))  # at least: linear Hermite terms
print("cosine at least", cosine, "; B_{μ/2}(L − L̂, δ) =", 0.5 * (1 - mu / 4) ** (3 - alpha * np.log(2 / mu)))
assert cosine > 0.5 * (1 - mu / 4) ** (3 - alpha * np.log(2 / mu)) + 0.001
