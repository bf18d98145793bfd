# eq. C.148: the right side is the derivative by z_1 and negative here, while a norm is not
import numpy as np

z, y = np.array([0.0, 1.0, -1.0]), np.array([1.0, 0.0, 0.0])
p = np.exp(z) / np.exp(z).sum()
slope = (np.array([1.0, 0.0, 0.0]) - p) * p[0]  # dp_i/dz_1 = p_1 (delta_i1 - p_i)
right = (2 * (y - p) * -slope).sum() / 3
print("norm:", abs(right), "printed:", right)
assert right < -0.05
