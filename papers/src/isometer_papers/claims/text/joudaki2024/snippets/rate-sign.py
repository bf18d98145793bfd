# eq. C.155: sin, standard BN, n = d = 16, depth 40; derivatives by W_k in random directions, larger near the input
import numpy as np

rng, sizes = np.random.default_rng(1), []
weights, (E, G, start) = np.linalg.qr(rng.standard_normal((40, 16, 16)))[0], rng.standard_normal((3, 50, 16, 16))
for k, X in ((9, start), (19, start), (29, start), (39, start)):
    for layer, W in enumerate(weights):
        H = (W + 1e-30j * E * (layer == k)) @ X @ (np.eye(16) - 1 / 16)  # complex step, centred
        X = np.sin(H / np.sqrt((H**2).mean(axis=2, keepdims=True)))
    sizes.append(np.log(((G * X.imag * 1e30).sum(axis=(1, 2)) ** 2).mean()) / 2)
print("R(20), R(30), R(40):", np.diff(sizes) / 10)
assert np.diff(sizes).max() < 0
