# § 3.4.1, n = 3 samples in d = 2: h has full rank 2, and W h never leaves the span of its two rows
import numpy as np

h, Y = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
W = Y @ np.linalg.pinv(h)
print("the best W gives", W @ h, "in place of", Y, sep="\n")
assert np.linalg.matrix_rank(h) == 2 and np.abs(W @ h - Y).max() > 0.3
