# Proof of Proposition 5.2: the terms w_j h_j of a pre-activation do not have one law
import numpy as np

rng, h = np.random.default_rng(1), np.array([1.0, 2.0, 2.0])
terms = rng.standard_normal((100_000, 3)) / np.sqrt(3) * h
print("variances of the terms:", terms.var(axis=0), "that is h_j^2/d =", h**2 / 3)
assert terms.var(axis=0).max() > 3 * terms.var(axis=0).min()
