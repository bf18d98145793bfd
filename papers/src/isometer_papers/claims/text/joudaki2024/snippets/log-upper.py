# under eq. C.54: log(1 + x) <= x - (6 + x)/(6 + 4x) fails around 0; x (6 + x)/(6 + 4x) = x - 3x^2/(6 + 4x) is right
import numpy as np

for x in (-0.5, 0.1, 0.5):
    print("x =", x, np.log1p(x), "printed:", x - (6 + x) / (6 + 4 * x), "C.54:", x - 3 * x**2 / (6 + 4 * x))
    assert x - (6 + x) / (6 + 4 * x) < np.log1p(x) < x - 3 * x**2 / (6 + 4 * x)
assert np.log1p(0.1) > 0.1 - 6.1 / 6.4
