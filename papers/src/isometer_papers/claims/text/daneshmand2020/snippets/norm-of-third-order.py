# eq. 87: the trace of M^3 is the sum of the cubes, not the cube of the Euclidean norm
import numpy as np

x = np.array([1.5, 1.0, 0.5])
U = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
M = U @ np.diag(x) @ U.T
print("Tr M^3 =", np.trace(M @ M @ M), "sum of cubes:", (x**3).sum(), "|lambda|^3 =", np.linalg.norm(x) ** 3)
assert np.linalg.norm(x) ** 3 > 1.2 * np.trace(M @ M @ M)
