# Lemma 4: X = 0 is bounded, and all layers are 0, of rank zero
import numpy as np

rng, B = np.random.default_rng(0), np.eye(3)
for _ in range(1000):
    B = (np.eye(3) + 0.5 * rng.uniform(-(3**0.5), 3**0.5, (3, 3))) @ B
    B /= np.linalg.norm(B)
ranks = [np.linalg.matrix_rank(B @ X, tol=1e-9) for X in (np.eye(3), np.zeros((3, 3)))]
print("rank from X = I:", ranks[0], "from X = 0:", ranks[1])
assert ranks[1] == 0
