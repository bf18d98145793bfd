# eq. 83 and Example 14 (i): a factor d - 1 is missing, and lambda_1 falls by 4 d^2 gamma^4 and not by O(d gamma^4)
import numpy as np

g, d = 1e-3, 64
lam = np.array([d - g**2 * (d - 1)] + [g**2] * (d - 1))
two, three = (lam**2).sum(), (lam**3).sum()
ratios = np.array([(d**2 - two) / (2 * d), (d**3 - three) / (3 * d**2), (d**4 - two**2) / (4 * d**3)]) / g**2
fall = -(2 * d**2 - 2 * two - 8 * three + 8 * two**2 / d) / (2 * d * g**2)  # eq. 50; |M|^2 falls by 2 d times as much
print("true terms over those of eq. 83:", ratios, "fall of lambda_1 over gamma^4 d:", fall / d)
assert np.allclose(ratios, d - 1, rtol=1e-3)
assert fall / d > 3 * d
