# eq. 7 for one layer of σ = h_2, with dual ρ²: it gives ρ² + ρ·2ρ² = 0.5 at ρ = ½; the gradients say ρ² + ρ·2ρ = 0.75
import numpy as np

rho, rng = 0.5, np.random.default_rng(0)
first, other, v = rng.standard_normal((3, 400_000))  # the width
second = rho * first + np.sqrt(1 - rho**2) * other
outer = ((first**2 - 1) * (second**2 - 1) / 2).mean()  # gradients by v; σ' = √2 z in those by W
inner = rho * (v**2 * 2 * first * second).mean()
print("∂f·∂f =", outer + inner, "; eq. 7:", rho**2 + rho * 2 * rho**2)
assert abs(outer + inner - 0.75) < 0.05
assert abs(outer + inner - (rho**2 + rho * 2 * rho**2)) > 0.15
