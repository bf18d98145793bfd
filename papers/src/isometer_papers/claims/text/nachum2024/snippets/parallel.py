# after eq. 111: for y = 2x the kernel equals the product, so K > x y and with it eq. 115 are not strict
import numpy as np

x, y = np.array([1.0, 2.0]), np.array([2.0, 4.0])
rho = x @ y / np.sqrt((x @ x) * (y @ y))
K = np.sqrt((x @ x) * (y @ y)) * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi
after = x @ x + y @ y - 2 * K  # E |relu(Wx) - relu(Wy)|^2 for sigma^2 = 2/d
print("K:", K, "x y:", x @ y, "|x - y|^2:", (x - y) @ (x - y), "after the layer:", after)
assert x @ y == K
assert after == (x - y) @ (x - y)
