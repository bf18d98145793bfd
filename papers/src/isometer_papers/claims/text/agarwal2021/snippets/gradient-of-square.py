# proof of Theorem 51, third line: three samples of length 1, y = Aw*, η = 1/(2β) = ½
import numpy as np

A, error, eta = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.array([1.0, 2.0]), 0.5  # samples in rows, w − w*
rest = A @ error
loss, gradients = (rest**2).mean(), 2 * rest[:, None] * A
second = -eta * error @ gradients.mean(axis=0) + eta**2 * (gradients**2).sum(axis=1).mean()
third = -eta * loss + eta**2 * (rest**2 * (A**2).sum(axis=1)).mean()
print("second line:", second, "; third line, which should be larger:", third)
assert second > third + 0.5
