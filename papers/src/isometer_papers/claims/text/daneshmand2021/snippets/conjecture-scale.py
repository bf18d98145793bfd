# Appendix F.1, tanh: |Q^T Q - E Q^T Q|_F grows with the width like sqrt d
import numpy as np

rng, found = np.random.default_rng(0), {16: 0.0, 256: 0.0}
for d in found:
    Q = rng.standard_normal((d, 4))
    for _ in range(300):
        M = rng.standard_normal((d, d)) @ np.tanh(Q)
        Q = M / np.linalg.norm(M, axis=1, keepdims=True)
        found[d] += np.linalg.norm(Q.T @ Q - d / 4 * np.eye(4)) / 300  # E Q^T Q is d I/n for odd F
print("mean of L by width:", found)
assert found[256] > 3 * found[16]
