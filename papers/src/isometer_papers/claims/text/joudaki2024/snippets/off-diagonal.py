# proof of Lemma A.3, three orthogonal samples: the right side of the sum over i != j is another number in every draw
import numpy as np

rng, n, d = np.random.default_rng(0), 3, 4
A = rng.standard_normal((5, d, n))
A /= np.linalg.norm(A, axis=2, keepdims=True)
right = ((A**2).sum(axis=2) ** 2 - (A**4).sum(axis=2)).sum(axis=1) / d**2
print("right sides of five draws:", right, "left side:", (n - 1) / ((n + 2) * d))
assert np.ptp(right) > 0.01
