# Theorems 13 and 45: n orthonormal features, K = I; a step of one sample changes one residual, so steps grow like n
import numpy as np

rng, steps = np.random.default_rng(0), {}
for n in (10, 100, 1000):
    residual, steps[n] = np.ones(n), 0
    while (residual**2).mean() > 0.01:
        residual[rng.integers(n)] *= 1 - 2 * 0.5  # η = ½, the best one: the sample is fitted at once
        steps[n] += 1
print("steps to 1 % of the loss:", steps)
assert steps[1000] > 50 * steps[10]
