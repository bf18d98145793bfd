# Lemma A.8 with the delta of eq. A.14, n = d = 2: (1/(2l)) log |V - sqrt(1/2)| tends to -delta/2, not below -delta
import numpy as np
from scipy.special import digamma

rng, S, layers = np.random.default_rng(0), np.tile(np.eye(2), (4000, 1, 1)), 8
for _ in range(layers):
    S = rng.standard_normal((4000, 2, 2)) @ S
det, square = np.linalg.det(S) ** 2, (S**2).sum(axis=(1, 2)) ** 2
small = 2 * det / square / (np.sqrt(0.5) + np.sqrt(0.5 - 2 * det / square))  # sqrt(1/2) - V
delta = digamma(1) - digamma(0.5)
print("rate:", np.log(small).mean() / (2 * layers), "-delta =", -delta, "-delta/2 =", -delta / 2)
assert np.log(small).mean() / (2 * layers) > -0.7 * delta
