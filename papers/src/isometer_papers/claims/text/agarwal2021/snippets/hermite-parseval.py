# eq. 16, Lemma 41: with gamma^2 in eq. 14 the squares of the coefficients of x under N(0, 2) sum to more than 2
import numpy as np

g, (x, w) = 2.0, np.polynomial.hermite_e.hermegauss(20)
z, w = np.sqrt(g) * x, w / w.sum()
first, third = (w @ (z * h) / np.sqrt(g**j * f) for h, j, f in ((z, 1, 1), (z**3 - 3 * g**2 * z, 3, 6)))
mu, delta = third**2 / (first**2 + third**2), 0.2
print("E sigma^2 = 2, two terms:", first**2 + third**2, "; cosine", 1 - delta, "bound", 1 - (1 + mu / 2) * delta)
assert first**2 + third**2 > 4 and 1 - delta > 1 - (1 + mu / 2) * delta + 0.05
