# Proposition 5.2: weights +-1/sqrt(d), inputs sqrt(d) e_1 and sqrt(d) e_2: pre-activations +-1 at every width
import numpy as np

d = 2000
W = np.random.default_rng(1).choice([-1.0, 1.0], (d, d)) / np.sqrt(d)
x, y = np.maximum(W[:, 0] * np.sqrt(d), 0), np.maximum(W[:, 1] * np.sqrt(d), 0)
print("rho_1 =", x @ y / np.sqrt((x @ x) * (y @ y)), "and kappa(0) =", 1 / np.pi)
assert abs(x @ y / np.sqrt((x @ x) * (y @ y)) - 0.5) < 0.05
