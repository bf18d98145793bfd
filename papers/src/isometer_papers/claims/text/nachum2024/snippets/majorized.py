# Appendix B: the CDF of y_t lies above the geometric one, not below
import numpy as np

rng, x, gamma = np.random.default_rng(0), np.array([[1.0, 0.0], [0.0, 1.0]]), 0.25  # four cells of volume 1/4
w = rng.standard_normal((100_000, 2))
rank = (np.maximum(w @ x.T, 0)[:, 1] > 0).mean()  # after the row (1, 0) one more has rank 2 if w x_2 > 0
print("P(y_2 <= 1) =", rank, "above", gamma)
assert rank > 0.4 > gamma
