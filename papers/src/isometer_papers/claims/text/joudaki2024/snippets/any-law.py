# eq. 3.7, Lemma B.4: two bits, the first dropped and a fair one added. Every fixed start mixes at 1 - alpha = 3/4
import numpy as np

P = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]) / 2
mu = np.array([0.5, 0.0, 0.5, 0.0])
# distances from the invariant law, which is uniform, after 0, 1 and 2 steps
fixed = [np.abs(np.linalg.matrix_power(P, k) - 0.25).sum(axis=1).max() / 2 for k in range(3)]
mixed = [np.abs(mu @ np.linalg.matrix_power(P, k) - 0.25).sum() / 2 for k in range(3)]
print("from any fixed start:", fixed, "from mu:", mixed)
assert np.all(np.array(fixed) <= 0.75 ** np.arange(3) * fixed[0])
assert abs(mixed[1] - mixed[0]) < 1e-12
