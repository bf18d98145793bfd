# after Theorem 5.8: phi = (he_1 + he_2)/sqrt(2) is centred and stable, and makes opposite samples orthogonal
import numpy as np

x = np.random.default_rng(1).standard_normal(400_000)
phi, opposite = [(s * x + (x**2 - 1) / np.sqrt(2)) / np.sqrt(2) for s in (1, -1)]
print("E phi =", phi.mean(), "E phi^2 =", (phi**2).mean(), "kappa(-1) =", (phi * opposite).mean())
assert abs(phi.mean()) < 0.02 and abs((phi**2).mean() - 1) < 0.02
assert abs((phi * opposite).mean()) < 0.02
