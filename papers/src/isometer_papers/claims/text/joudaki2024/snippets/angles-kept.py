# §4.1: the network W maps these samples (columns) to an identity Gram matrix; their angle is not kept
import numpy as np

X, W = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, -1.0], [0.0, 1.0]])
H = W @ X
angles = [np.degrees(np.arccos(A[:, 0] @ A[:, 1] / np.prod(np.linalg.norm(A, axis=0)))) for A in (X, H)]
isometry = np.sqrt(np.linalg.det(H.T @ H)) / (np.trace(H.T @ H) / 2)
print("isometry of the features:", isometry, "angle of the inputs:", angles[0], "of the features:", angles[1])
assert isometry > 1 - 1e-12
assert abs(angles[1] - angles[0]) > 40
