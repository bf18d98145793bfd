# eq. 6.2: mean log |dL/dW_1|, 80 layers, L = <C, X_80>, |C| = 1, samples e_i + (1, ..., 1), and 1e-10 e_i + (1, ..., 1)
from itertools import accumulate

import numpy as np

means, W, C = [], np.linalg.qr(np.random.default_rng(0).standard_normal((80, 64, 5, 5)))[0], np.full((64, 5, 5), 0.2)
for start in (np.eye(5) + 1, 1e-10 * np.eye(5) + 1):
    X, G = list(accumulate(W, lambda x, w: w @ x / np.linalg.norm(w @ x, axis=2, keepdims=True), initial=start)), C
    for w, x, y in zip(W[::-1], X[-2::-1], X[:0:-1], strict=True):
        G = np.swapaxes(w, 1, 2) @ ((G - (G * y).sum(2)[..., None] * y) / np.linalg.norm(w @ x, axis=2)[..., None])
    means.append(np.log(np.linalg.norm(G @ start.T, axis=(1, 2))).mean())  # |G X_0^T| = |dL/dW_1|
print("means:", means)
assert means[1] > means[0] + 1
