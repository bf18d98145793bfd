# Theorem 37 with the square as printed, for tanh with E σ² = 1, ‖x‖² = ½ and L = 0, 1, 2
import numpy as np

z, weight = np.polynomial.hermite_e.hermegauss(100)
weight, t = weight / weight.sum(), np.tanh(z)
square = weight @ t**2


def length(g):
    return weight @ np.tanh(np.sqrt(g) * z) ** 2 / square


alpha, g = min(2 * length(0.5) - 1, 1 - weight @ (t * (1 - t**2) * z) / square), [0.5]
g += [length(0.5), length(length(0.5))]
print([(float(abs(g[k] - 1)), "printed bound", float((1 - alpha) ** k * 0.25)) for k in range(3)])
assert all(abs(g[k] - 1) > (1 - alpha) ** k * 0.25 for k in range(3))
