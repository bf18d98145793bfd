# eq. 9 at t = 1: W has the 4 rows of S_2, while the vectors of S_4 have four entries, and X has two rows
import numpy as np

t = 1
W = np.concatenate([np.eye(2**t), -np.eye(2**t)])
printed = np.concatenate([np.eye(2 ** (t + 1)), -np.eye(2 ** (t + 1))])
print("W:", W.shape, "S_4:", printed.shape, "rows of X:", 2**t)
assert printed.shape[1] != 2**t == W.shape[1]
