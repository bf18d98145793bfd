# proof of Theorem 45: λ_min(K) = Ω(n) cannot be, since K has unit diagonal: λ_min ≤ trace/n = 1
import numpy as np

x = np.random.default_rng(0).standard_normal((300, 20))
K = np.corrcoef(x)
share = {n: float(np.linalg.eigvalsh(0.01 * K[:n, :n] + 0.99 * np.eye(n))[0]) / n for n in (10, 100, 300)}
print("λ_min/n:", share)
assert all(value <= 1 / n for n, value in share.items())
