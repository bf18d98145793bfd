# proof of Theorem 5.15: RMS norm before ReLU, first layer, |x|^2 = d: it divides by 1, not by sqrt(E phi^2) = sqrt(1/2)
import numpy as np

rng, d = np.random.default_rng(0), 100_000
z = rng.standard_normal(d)  # W x
normed = z / np.sqrt((z**2).mean())
printed = z / np.sqrt((np.maximum(z, 0) ** 2).mean())
print("mean square difference from z / sqrt(E phi^2):", ((normed - printed) ** 2).mean())
assert ((normed - printed) ** 2).mean() > 0.1
