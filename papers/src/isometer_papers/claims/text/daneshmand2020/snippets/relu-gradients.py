# Proposition 8, F = ReLU: H has rank one, F(H_i) and F(H_j) are orthogonal, and so are gradients of a last-layer neuron
import numpy as np

H = np.outer([1.0, -2.0, 3.0, -1.0], [1.0, -0.5, 2.0])  # samples in columns
F = np.maximum(H, 0)
gradients = np.array([0.7, -1.2, 0.4]) * F  # (grad l_i)_k F(H_i), eq. 13
cosine = gradients[:, 0] @ gradients[:, 1] / np.linalg.norm(gradients[:, 0]) / np.linalg.norm(gradients[:, 1])
print("rank of H:", np.linalg.matrix_rank(H), "of F(H):", np.linalg.matrix_rank(F), "cosine of two gradients:", cosine)
assert np.linalg.matrix_rank(H) == 1
assert cosine == 0
