# eq. B.5 without E X_i = 0: X_i = 1, K = 1, t = 1/2; the mean is 1 for certain
import math

for d in (20, 40, 80):
    print("d =", d, "P(mean >= 1/2) = 1, bound:", 2 * math.exp(-d * 0.5**2 / 2 / (1 + 0.5 / 3)))
assert 2 * math.exp(-80 * 0.5**2 / 2 / (1 + 0.5 / 3)) < 0.001
