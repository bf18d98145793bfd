# eq. C.130: sqrt(2x) at x = sqrt(2 d psi) is larger than 2 sqrt(d psi), so that C.130 does not follow from it
import numpy as np

for dpsi in (0.001, 0.01, 1 / 16):
    x, bound = np.sqrt(2 * dpsi), 2 * np.sqrt(dpsi)
    print("d psi =", dpsi, "sqrt(2x) =", np.sqrt(2 * x), "sqrt(2) x =", np.sqrt(2) * x, "eq. C.130:", bound)
    assert np.sqrt(2 * x) > 1.6 * bound
    assert -np.log1p(-x) <= bound
assert np.sqrt(2 * x) > 0.8
