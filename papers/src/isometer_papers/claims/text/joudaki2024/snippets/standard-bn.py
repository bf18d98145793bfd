# Figure C.10: standard BN, identity, n = d = 5, 40 networks; size of J T for a perturbation T of the input
import numpy as np

rng, sizes = np.random.default_rng(1), []
X, T = rng.standard_normal((2, 40, 5, 5))
for W in np.linalg.qr(rng.standard_normal((400, 40, 5, 5)))[0]:
    X, T = (W @ A - (W @ A).mean(axis=2, keepdims=True) for A in (X, T))
    length = np.linalg.norm(X, axis=2, keepdims=True)
    X, T = X / length, (T - X * (X * T).sum(axis=2, keepdims=True) / length**2) / length
    sizes.append(np.log(np.linalg.norm(T, axis=(1, 2))).mean())
print("mean log of the norm after 50, 100, 200, 400 layers:", [sizes[k - 1] for k in (50, 100, 200, 400)])
assert sizes[399] > sizes[199] + 1 > sizes[49] + 2
