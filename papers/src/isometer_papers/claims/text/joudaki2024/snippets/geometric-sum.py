# eq. C.111: (1 - q)^(L+1) < e^(-qL) with q = 1/(32 d^4), so that the first line is larger for every d and L
import numpy as np

for d, L in ((2, 10), (2, 1000), (3, 100), (5, 10_000)):
    q = 1 / (32 * d**4)
    first, second = -np.expm1((L + 1) * np.log1p(-q)), -np.expm1(-q * L)
    print("d =", d, "L =", L, "eq. C.110:", first, "eq. C.111:", second)
    assert first > second
assert first - second > 1e-6
