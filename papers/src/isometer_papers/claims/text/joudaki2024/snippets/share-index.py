# eq. A.8: with the printed index all p_i are p_n, and the trace of E C is n p_n in place of 1
import numpy as np

w = np.random.default_rng(0).standard_normal((200000, 3)) ** 2 * np.array([0.8, 0.15, 0.05])  # sigma^2
p = (w / w.sum(axis=1, keepdims=True)).mean(axis=0)
print("p_i with the index i:", p, "sum", p.sum(), "; as printed:", [p[2]] * 3, "sum", 3 * p[2])
assert 3 * p[2] < 0.5
