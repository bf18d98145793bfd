# §1.1, §1.2: BN with the parameter vector alpha has rows of mean alpha, not 0
import numpy as np

H, alpha, beta = np.array([[1.0, 3.0, 2.0], [1.0, -1.0, 3.0]]), np.array([0.5, 2.0]), np.ones(2)
centred = H - H.mean(axis=1, keepdims=True)
bn = beta[:, None] * centred / np.sqrt((H**2).mean(axis=1, keepdims=True)) + alpha[:, None]
print("means of the rows:", bn.mean(axis=1))
assert abs(bn.mean(axis=1) - alpha).max() < 1e-12
