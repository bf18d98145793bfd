# eq. 49: all rows of M have one norm, and Tr(diag(M^2))^2 is d times |lambda|^4/d
import numpy as np

M = np.array([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]])
right = (np.linalg.eigvalsh(M) ** 2).sum() ** 2 / 3
print("(Tr diag(M^2))^2", np.trace(M @ M) ** 2, "Tr(diag(M^2)^2)", (np.diag(M @ M) ** 2).sum(), "|lambda|^4/d", right)
assert abs(np.trace(M @ M) ** 2 - 3 * right) < 1e-12
