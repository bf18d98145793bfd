# eq. C.113: for psi(X^0) just above 1/(16 d) S is at least 1 for certain, and at l = 1 the bound is below 1
import numpy as np

for d in (2, 3, 5):
    psi = 1.01 / (16 * d)
    bound = 16 * d * psi * np.exp(-1 / max(2 * d**2, 32 * d**3 * psi))
    print("d =", d, "Pr{S >= 1} = 1, bound:", bound)
    assert bound < 1
assert psi > 1 / (16 * d)
