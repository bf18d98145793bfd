# eq. 3 as displayed, m = 64: Π gives unit length, a further 1/√m leaves pre-activations near 0, and cosines go to 1
import numpy as np

rng, m, s = np.random.default_rng(0), 64, np.sqrt(0.5 - 0.5 / np.pi)
h = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
for layer in range(20):
    z = h @ rng.standard_normal((h.shape[1], m)) / (np.sqrt(m) if layer else 1)
    h = (np.maximum(z, 0) - 1 / np.sqrt(2 * np.pi)) / s
    h /= np.linalg.norm(h, axis=1, keepdims=True)
print("cosine before: 0.5, after 20 layers:", h[0] @ h[1])
assert h[0] @ h[1] > 0.99
