# proof of Theorem 27 at L = 2L₀(δ), δ = 0.3, μ = ½: the empty product 1 is not 2B(L₀, δ)
import math

delta, mu = 0.3, 0.5
start = math.ceil(math.log(1 / (2 * delta)) / math.log(1 + mu / 2))
bound = 1 - delta * (1 + mu / 2) ** start  # B(L₀, δ), the case L ≤ L₀
print("L₀ =", start, "; (1 − μ/2)^0 = 1; 2B(L₀, δ) =", 2 * bound)
assert 2 * bound < 0.9
