# BN and random linear layers, n = 4: root mean squares of the gap and of sigma - 1/2 at great depth for d = 32 and d = 256
import numpy as np

rng, found = np.random.default_rng(0), []
for d in (32, 256):
    H, s = rng.standard_normal((d, 4)), []
    for _ in range(300):
        H = (Z := rng.standard_normal((d, d)) @ H) / np.linalg.norm(Z, axis=1, keepdims=True) / np.sqrt(d)
        s.append(np.linalg.svd(H, compute_uv=False))
    found.append([np.std(np.square(s[30:])), np.std(s[30:])])
print("d = 32 over d = 256, gap and distance:", np.divide(*found), "; 1/d would give 8, 1/sqrt(d) gives", 8**0.5)
assert np.divide(*found).max() < 4
