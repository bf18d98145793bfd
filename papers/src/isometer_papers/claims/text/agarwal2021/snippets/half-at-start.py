# proof of Corollary 28.2: (1 − μ/2)^{L₀(δ)} ≤ ½ fails for δ = 0.45 and μ = ½, where L₀ = 1
import math

delta, mu = 0.45, 0.5
start = max(math.ceil(math.log(1 / (2 * delta)) / math.log(1 + mu / 2)), 0)
power = (1 - mu / 2) ** start
print("L₀ =", start, "; (1 − μ/2)^L₀ =", power)
assert power > 0.7
