# facts 3 and 4, C.4: with a_i = E sigma h_i and the probabilist's h_2 = u^2 - 1 the coefficient is a_i^2/i!
import numpy as np

x, w = np.polynomial.hermite_e.hermegauss(20)
w = w / w.sum()
sigma, h = (x**2 - 1) / np.sqrt(2) + x, (x**0, x, x**2 - 1)
a = np.array([w @ (sigma * one) for one in h])
print("E sigma^2 =", w @ sigma**2, "and the sum of a_i^2 is", (a**2).sum(), "; mu = 0.5 and", 1 - a[1] ** 2 / (a[1:] ** 2).sum())
assert abs((a**2).sum() - w @ sigma**2) > 0.9
