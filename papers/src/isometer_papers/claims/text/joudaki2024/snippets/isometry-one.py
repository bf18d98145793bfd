# Lemma 4.2: the isometry of 2 I_3 is 1
import numpy as np

M = 2 * np.eye(3)
isometry = np.linalg.det(M) ** (1 / 3) / (np.trace(M) / 3)
print("isometry of 2 I:", isometry)
assert abs(isometry - 1) < 1e-12
