# Lemma 15: for N = 1 and gamma = 1 signs flip independently, the law is unique, M = s s^T, and alpha = 1
import numpy as np

rng, d, total = np.random.default_rng(0), 3, np.zeros(2)
H = np.ones((d, 1))
for _ in range(2000):
    H = np.sign(H + rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ H)  # batch norm of one sample
    M = H @ H.T
    total += (np.diag(M @ M) ** 2).sum(), np.trace(M @ M @ M)
print("alpha =", total[0] / total[1])
assert total[0] / total[1] >= 1
