# Theorem 16 for fair labels ±1 that do not depend on x: v* = 0 makes the bound 0, and the interpolant is not 0
import numpy as np

N, sample, y = 200, [3, 50, 120], np.array([1.0, -1.0, 1.0])  # N orthonormal inputs, equally likely; n = 3
features = np.eye(N)
X = features[sample]
interpolant = X.T @ np.linalg.solve(X @ X.T, y)
excess = ((features @ interpolant) ** 2).mean()  # E(y − f)² − E y² = E f², since y is independent of x
print("excess risk:", excess, "; ‖v*‖² log(n/γ)/n = 0")
assert excess > 0.01
