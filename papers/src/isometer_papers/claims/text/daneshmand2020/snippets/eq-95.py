# eq. 95: with K = H F(H)/N the expansion of M(H_gamma) - M(H) is wrong, with K = F(H) H^T/N it is right
import numpy as np

rng, N, g = np.random.default_rng(0), 3, 0.5
H, W = rng.standard_normal((N, N)), rng.uniform(-(3**0.5), 3**0.5, (N, N))  # N = d, where the printed product exists
F, K = np.tanh(H), H + g * W @ np.tanh(H)
change = (K @ K.T - H @ H.T) / N
gaps = [abs(g * W @ A + g * A.T @ W.T + g**2 * W @ F @ F.T @ W.T / N - change).max() for A in (H @ F / N, F @ H.T / N)]
print("largest difference, printed and corrected:", gaps)
assert gaps[0] > 0.1 > 1e-12 > gaps[1]
