# Lemmas B.1, B.2: n = B = 1, x_i in {0, 1} fair, d = 101, C = 1/2: for small t the chance is 1, whatever the constant c
import numpy as np

d, c = 101, np.array([3, 100])
deviation = abs(np.random.default_rng(0).integers(0, 2, (10_000, d)).mean(axis=1) - 1 / 2)  # |C_d - C|; C^-1 doubles it
t = 1 / (2 * c * np.sqrt(d))  # c t eps = 1/(2d), eps = 1/sqrt(d)
share = (deviation[:, None] >= c * t / np.sqrt(d) - 1e-12).mean(axis=0)
print("c =", c, "t =", t, "share of draws beyond c t eps:", share, "bound:", np.exp(-(t**2)))
assert (share == 1).all() and (np.exp(-(t**2)) < 1).all()
