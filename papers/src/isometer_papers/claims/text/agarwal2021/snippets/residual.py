# proof of Theorem 16: ‖y − Xv*‖² ≤ n(1 + ‖v*‖²) lacks a factor 2: orthonormal inputs, E[y|x] = −0.9, y = 1
import numpy as np

X, y, best = np.eye(3), np.ones(3), np.full(3, -0.9)
residual, bound = ((y - X @ best) ** 2).sum(), 3 * (1 + best @ best)
print("‖y − Xv*‖² =", residual, "; n(1 + ‖v*‖²) =", bound)
assert residual > bound + 0.5
