# orthogonal H and weights of variance 1/d: the entries of WH have variance 1/(nd), and 1/d for orthonormal columns
import numpy as np

rng, d, n = np.random.default_rng(0), 20, 5
Q = np.linalg.qr(rng.standard_normal((d, n)))[0]
W = rng.standard_normal((400, d, d)) / d**0.5
print("variance of WQ:", (W @ Q).var(), "of WH, |H|_F = 1:", (W @ Q / n**0.5).var(), "standard: 1")
assert (W @ Q).var() < 0.1
