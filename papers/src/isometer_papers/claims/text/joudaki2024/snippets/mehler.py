# proof of Lemma 5.6: without rho^m the right side does not depend on rho, and its partial sums do not settle
import numpy as np
from scipy.special import eval_hermitenorm, factorial

x, y, rho, m = 1.0, 0.5, 0.5, np.arange(150)
left = np.exp(-(rho**2 * (x**2 + y**2) - 2 * x * y * rho) / (2 * (1 - rho**2))) / np.sqrt(1 - rho**2)
terms = eval_hermitenorm(m, x) * eval_hermitenorm(m, y) / factorial(m)
print("left:", left, "printed:", terms[:100].sum(), terms.sum(), "with rho^m:", (rho**m * terms).sum())
assert abs(left - (rho**m * terms).sum()) < 1e-9
assert abs(left - terms.sum()) > 0.1
