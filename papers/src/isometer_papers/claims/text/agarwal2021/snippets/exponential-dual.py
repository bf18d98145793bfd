# table of C.4: the dual of e^u is e^(ρ+1), not e^(ρ+3)
import numpy as np

rho = 0.5
z, weight = np.polynomial.hermite_e.hermegauss(60)
weight = weight / weight.sum()
first, second = z[:, None], rho * z[:, None] + np.sqrt(1 - rho**2) * z
dual = weight @ np.exp(first + second) @ weight
print("E exp(X + X') =", dual, "; e^(ρ+1) =", np.exp(rho + 1), "; printed e^(ρ+3) =", np.exp(rho + 3))
assert abs(dual - np.exp(rho + 3)) > 25
