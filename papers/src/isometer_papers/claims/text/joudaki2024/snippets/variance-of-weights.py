# under eq. A.7: W_l has entries of variance 1/d (section 2.1.1), and so has W_l U
import numpy as np

rng, d = np.random.default_rng(0), 100
U = np.linalg.qr(rng.standard_normal((d, d)))[0]
W = rng.standard_normal((d, d)) / np.sqrt(d) @ U
print("variance of the entries of W_l U:", W.var(), "and not 1")
assert W.var() < 0.02
