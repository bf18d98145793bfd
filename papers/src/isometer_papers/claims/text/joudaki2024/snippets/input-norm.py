# Proposition 5.1: phi = sin/sqrt(E sin^2), cosine 1/2; inputs with |x|^2 = 4d do not follow kappa at the first layer
import numpy as np

rng = np.random.default_rng(1)
x, y = 2 * rng.standard_normal(200_000), rng.standard_normal(200_000)
y = 0.5 * x + np.sqrt(0.75) * 2 * y  # the pre-activations W x, W y of 200,000 units
first = (np.sin(x) * np.sin(y)).mean() / np.sqrt((np.sin(x) ** 2).mean() * (np.sin(y) ** 2).mean())
print("rho_1 =", first, "exactly", np.sinh(2) / np.sinh(4), "and kappa(1/2) =", np.sinh(0.5) / np.sinh(1))
assert abs(first - np.sinh(2) / np.sinh(4)) < 0.02
assert np.sinh(0.5) / np.sinh(1) - first > 0.2
