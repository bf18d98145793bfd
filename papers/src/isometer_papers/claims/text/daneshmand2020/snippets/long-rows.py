# Lemma 20: for H outside of the space of rows of length sqrt(N) the change of M is larger than the bound
import numpy as np

H, W, gamma, B = np.array([[4.0, 8.0], [8.0, -4.0]]), np.eye(2), 0.1, 1.0
d, N = H.shape
after = H + gamma * W @ H
change = abs(after @ after.T / N - H @ H.T / N).max()
bound = 2 * np.sqrt(3) * d * B * gamma + 3 * d**2 * B**2 * gamma**2
print("largest change", change, "and the bound", bound)
assert change > 8 * bound
