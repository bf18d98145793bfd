# A.5: Xavier weights of width 50 with all singular values replaced by their mean: a multiple of an orthogonal matrix
import numpy as np

W = np.random.default_rng(0).standard_normal((50, 50)) / np.sqrt(50)
U, s, Vt = np.linalg.svd(W)
Q = s.mean() * U @ Vt
print("mean singular value:", s.mean(), "Q Q^T is the identity times", (Q @ Q.T)[0, 0])
assert abs((Q @ Q.T)[0, 0] - 1) > 0.2
