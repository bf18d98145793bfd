# Proof of Lemma B.2: C^-1 C_d - I is not the deviation of the whitened samples, and larger
import numpy as np

C, S = np.diag([1.0, 4.0]), np.array([[1.0, 1.0], [1.0, 4.0]])  # S = C_d
root = np.diag([1.0, 0.5])
left, right = (np.linalg.norm(A - np.eye(2)) for A in (np.linalg.inv(C) @ S, root @ S @ root))
print("C^-1 C_d:", left, "whitened:", right)
assert left > 1.4 * right
