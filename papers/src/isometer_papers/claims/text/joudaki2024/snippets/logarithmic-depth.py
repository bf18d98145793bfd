# after Theorem 3.2: alpha = 0.1, d = 10^6, n = 10; after log(d/n) layers the first term of eq. 3.5 is not small
import numpy as np

alpha, d, n = 0.1, 1e6, 10
width = n / np.sqrt(d)
for layers in (np.log(d / n), np.log(d / n) / alpha):
    print("after", layers, "layers (1 - alpha)^(l/2) =", (1 - alpha) ** (layers / 2), "and n/sqrt(d) =", width)
assert (1 - alpha) ** (np.log(d / n) / 2) > 50 * width
assert (1 - alpha) ** (np.log(d / n) / alpha / 2) < width
