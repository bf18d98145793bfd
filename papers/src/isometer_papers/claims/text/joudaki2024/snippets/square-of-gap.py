# A.4: sum sigma^4 - 1/n and 1/(sum sigma)^2 - 1/n are the squares of the gaps
import numpy as np

s, n = np.array([0.8, 0.48, 0.36]), 3
gaps = [np.linalg.norm(np.diag(x**2 / (x**2).sum()) - np.eye(n) / n) for x in (s, s**0.5)]
printed = [(s**4).sum() - 1 / n, 1 / s.sum() ** 2 - 1 / n]
print("V(H), V(W H):", gaps, "squares:", [gap**2 for gap in gaps], "printed:", printed)
assert np.allclose(np.square(gaps), printed)
assert gaps[0] > 2 * printed[0]
