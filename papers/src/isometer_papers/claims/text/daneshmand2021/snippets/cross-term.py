# Proof of Lemma 6, three orthogonal samples: the mean of A_ki^2 A_kj^2 A_k'i^2 A_k'j^2 is 1/225, not 0
import numpy as np

A = np.random.default_rng(0).standard_normal((2, 1_000_000, 3))  # rows k and k'
A /= np.linalg.norm(A, axis=-1, keepdims=True)
with_squares, without = ((A[0, :, 0] * A[0, :, 1] * A[1, :, 0] * A[1, :, 1]) ** power for power in (2, 1))
print("with squares:", with_squares.mean(), "1/225 =", 1 / 225, "without:", without.mean())
assert abs(with_squares.mean() * 225 - 1) < 0.02
assert abs(without.mean()) < 1e-3
