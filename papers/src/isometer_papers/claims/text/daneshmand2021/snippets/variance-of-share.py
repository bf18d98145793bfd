# Proof of Lemma 6, d = 3, two orthogonal samples: the variance of C_11 is a number, the printed sum varies
import numpy as np

angles, d = np.random.default_rng(0).uniform(0, 2 * np.pi, (100_000, 3)), 3  # rows (cos, sin) of A
shares = np.cos(angles) ** 2
printed = ((shares - 1 / 2) ** 2).sum(axis=1) / d**2
print("var C_11:", shares.mean(axis=1).var(), "printed sum, from", printed.min(), "to", printed.max())
print("its mean:", printed.mean())
assert printed.max() > 5 * printed.min()
assert abs(printed.mean() / shares.mean(axis=1).var() - 1) < 0.02
