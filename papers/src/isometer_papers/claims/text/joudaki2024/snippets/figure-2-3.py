# Figure 2.3: n = 36, d = 80 is above (n - 28)^1.8 = 42; from a Gaussian input sigma_n falls far below alpha_0/10
import numpy as np

rng, n, d = np.random.default_rng(0), 36, 80
H = rng.standard_normal((d, n))
H /= np.linalg.norm(H)
start = np.linalg.svd(H, compute_uv=False)[-1]
for _ in range(200):
    M = rng.standard_normal((d, d)) @ H
    H = M / np.linalg.norm(M, axis=1, keepdims=True) / np.sqrt(d)
print("alpha_0 =", start, "sigma_n after 200 layers:", np.linalg.svd(H, compute_uv=False)[-1])
assert np.linalg.svd(H, compute_uv=False)[-1] < 1e-6 * start
