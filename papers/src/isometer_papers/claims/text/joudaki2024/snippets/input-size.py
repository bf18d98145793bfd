# eq. C.48 at l = 0: the gap of X does not change with its size, sigma does; X X^T has the eigenvalues 6 and 2
import numpy as np

values = np.array([6.0, 2.0])
gap = np.log(values.mean()) - np.log(values).mean()
bounds = [gap - sigma / (2 * len(values) ** 2) for sigma in (((values - 1) ** 2).mean(), values.var())]
print("gap", gap, "bound of the mean of the next gap, with 1 or the mean of the eigenvalues in sigma:", bounds)
assert max(bounds) < -0.3
