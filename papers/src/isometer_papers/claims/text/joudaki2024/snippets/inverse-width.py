# BN and random linear layers, n = 4: gap V and distance to the Gaussian at great depth for d = 32 and d = 256
import numpy as np

rng, found = np.random.default_rng(0), {}
for d in (32, 256):
    H, s = rng.standard_normal((d, 4)), []
    for layer in range(300):
        Z = rng.standard_normal((d, d)) @ H
        H = Z / np.linalg.norm(Z, axis=1, keepdims=True) / np.sqrt(d)
        s += [np.linalg.svd(H, compute_uv=False)] if layer > 30 else []
    found[d] = (
        np.linalg.norm(np.square(s) - 1 / 4, axis=1).mean(),
        np.sqrt(((np.array(s) - 0.5) ** 2).sum(axis=1).mean()),
    )
ratios = [float(a / b) for a, b in zip(found[32], found[256], strict=True)]
print("d = 32 over d = 256, gap and distance:", ratios, "1/d would give 8, 1/sqrt(d) gives", 8**0.5)
assert max(ratios) < 4
