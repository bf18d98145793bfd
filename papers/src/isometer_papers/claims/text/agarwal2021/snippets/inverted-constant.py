# Theorem 12 with α_σ of Theorem 37: a smooth clip at ±2, ‖x‖² = ‖y‖² = ½, cosine 0.4999, three layers
import numpy as np

x, w = np.polynomial.hermite_e.hermegauss(150)


def of(g):  # E σ² and 1 − μ^γ at γ = g, for σ' proportional to tanh(3(x + 2)) − tanh(3(x − 2))
    s = np.log(np.cosh(3 * np.sqrt(g) * x + 6) / np.cosh(3 * np.sqrt(g) * x - 6))
    return w @ s**2, (w @ (x * s)) ** 2 / (w @ s**2) / w.sum()


first, slope, mu = of(0.5)[0] / of(1)[0], (of(1.001)[0] / of(1)[0] - 1) / 0.001, 1 - of(1)[1]
cosine = 0.4999 * of(0.5)[1] * of(first)[1] * of(of(first)[0] / of(1)[0])[1]  # at least: the linear Hermite terms
bound = 0.5 * (1 - mu / 4) ** (3 - min(2 * first - 1, 1 - slope) * np.log(2 / mu))
print("cosine at least", cosine, "; B_{μ/2}(L − L̂, δ) =", bound)
assert cosine > bound + 0.0005
