# Lemma 7: from rank one, tanh and gamma = 1/(8d), the time average of M_12 is not 1 or -1
import numpy as np

rng, d = np.random.default_rng(0), 2
H = np.tile(np.outer(np.ones(d), [1.0, 2.0]) / np.sqrt(2.5), (50, 1, 1))  # 50 chains, samples in columns
total = np.zeros(50)
for _ in range(4000):
    H = H + rng.uniform(-(3**0.5), 3**0.5, (50, d, d)) @ np.tanh(H) / (8 * d)
    H /= np.sqrt((H**2).mean(axis=2, keepdims=True))
    total += (H[:, 0] * H[:, 1]).mean(axis=1) / 4000
print("|average of M_12|, mean of 50 chains:", abs(total).mean())
assert abs(total).mean() < 0.8
