# after Theorem 4.3: lengths of more variance, and a smaller gain of isometry (orthogonal samples)
import numpy as np

a, b = np.array([1.0, 1.0, 10.0]), np.array([1.0, 100.0, 100.0])
spread = [x.var() / x.mean() ** 2 for x in (a, b)]
gain = [(x**2).mean() / x.prod() ** (2 / 3) for x in (a, b)]  # I = det^(1/n)/(tr/n) before is 1/gain, after it is 1
print("var/mean^2:", spread, "gain:", gain)
assert spread[0] > 2 * spread[1]
assert gain[0] < 0.6 * gain[1]
