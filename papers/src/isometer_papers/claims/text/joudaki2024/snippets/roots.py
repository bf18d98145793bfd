# under eq. C.55: the roots of 3e^2 - (6 + 4e)/16 are (1 +- sqrt(73))/24
import numpy as np

roots = np.sort(np.roots([3, -4 / 16, -6 / 16]))
print("roots:", roots, "printed:", (1 - np.sqrt(74)) / 24, (1 + np.sqrt(74)) / 24)
assert np.abs(roots - (1 + np.sqrt(73) * np.array([-1, 1])) / 24).max() < 1e-12
assert abs(roots[1] - (1 + np.sqrt(74)) / 24) > 0.002
