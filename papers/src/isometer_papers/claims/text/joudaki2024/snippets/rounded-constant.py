# eq. C.48 from Corollary C.6 at d = 2, eigenvalues 1.1 and 0.9: the corollary takes off half of what C.48 does
import numpy as np

d, values = 2, np.array([1.1, 0.9])
square = ((values - 1) ** 2).sum()
corollary, printed = np.log(1 - square / (2 * d**2 * (d + 2))), -(square / d) / (2 * d**2)
print("Corollary C.6:", corollary, "eq. C.48:", printed)
assert corollary > 0.6 * printed
