# Lemma C.18, Corollary C.19: the Jacobian of x/|x| at x in R^3 is 3 x 3, with 1/|x| twice and 0 once
import numpy as np

x = np.array([1.0, 2.0, 2.0])
J = np.eye(3) / 3 - np.outer(x, x) / 27
values = np.linalg.eigvalsh(J)
print("shape:", J.shape, "eigenvalues:", values, "printed multiplicity of 1/3:", 3**2 - 1)
assert J.shape != (9, 9)
assert np.isclose(values, 1 / 3).sum() == 2
