# eq. 19: for |x_i| < 1 the printed step does not reach the hyperplane of x_i; with |x_i|^2 it passes it
import numpy as np

w, x, eps = np.array([1.0, 4.0]), np.array([0.5, 0.0]), 1e-6  # |w x| = 1/2 is least among x and (0, 1)
norm = np.linalg.norm(x)
printed, squared = ((w - (1 + eps) * (w @ x) / norm**p * x) @ x for p in (1, 2))
print("after the step:", printed, "as printed (should be negative);", squared, "with the square")
assert printed > 0.2
assert squared < 0
