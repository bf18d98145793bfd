# eq. B.6 to B.9: x on the sphere of radius sqrt n in R^10, C = I, B = 1; without the square they are right
import numpy as np

n = 10
x = np.random.default_rng(0).standard_normal(n)
x *= np.sqrt(n) / np.linalg.norm(x)
size = np.linalg.norm(np.outer(x, x) - np.eye(n))
print("square:", size**2, "eq. B.6:", n + np.sqrt(n), "eq. B.9:", 2 * n, "without square:", size)
assert size**2 > 2 * n > n + np.sqrt(n) > size
