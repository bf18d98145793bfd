# Definition 18, fact 2: σ(u) = u² − 1 is the second probabilist's polynomial, and its coefficient E[σ(X)h_2(X)] is 2
import numpy as np

x, w = np.polynomial.hermite_e.hermegauss(10)
basis = [np.polynomial.hermite_e.HermiteE.basis(k) for k in range(6)]
a = [(w * (x**2 - 1) * h(x)).sum() / np.sqrt(2 * np.pi) for h in basis]
u = 2.0
print("sigma(2) =", u**2 - 1, "and the sum of a_i h_i(2) is", sum(c * h(u) for c, h in zip(a, basis, strict=True)))
assert abs(sum(c * h(u) for c, h in zip(a, basis, strict=True)) - 2 * (u**2 - 1)) < 1e-9
