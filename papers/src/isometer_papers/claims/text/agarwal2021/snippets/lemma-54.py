# Lemma 54 for N = 1: the bound is 8 ln(1)/1 = 0; three orthogonal inputs with equal probability have ‖Σ‖ = 1/3
import numpy as np

features, N = np.eye(3), 1
norm, bound = np.linalg.norm(features.T @ features / 3, 2), 8 * np.log(N) / N
print("‖Σ‖ =", norm, "; bound:", bound)
assert norm > bound + 0.3
