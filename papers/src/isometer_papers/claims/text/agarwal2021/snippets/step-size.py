# Theorems 44 and 47: 𝓛 = (1/n)Σ(f − y)², K = I and η = 1/λ_max(K) (or 2/(λ_min + λ_max)): steps grow like n
import numpy as np

steps = {}
for n in (10, 100, 1000):
    kernel, residual, steps[n] = np.ones(n), np.ones(n), 0  # the diagonal of K
    while (residual**2).mean() > 0.01:
        residual -= 1 / kernel.max() * 2 / n * kernel * residual
        steps[n] += 1
print("steps to 1 % of the loss:", steps, "; κ = 1")
assert steps[1000] > 50 * steps[10]
