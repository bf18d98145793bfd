# eq. 7 for one layer of sign at ρ = ½: gradients by W vanish, so ∂f·∂f = σ̂(ρ) = 1/3; the formula adds ρ σ̂'(ρ)
import numpy as np

rho, rng = 0.5, np.random.default_rng(0)
first, other = rng.standard_normal((2, 400_000))  # the width
gradients = (np.sign(first) * np.sign(rho * first + np.sqrt(1 - rho**2) * other)).mean()
formula = 2 / np.pi * np.arcsin(rho) + rho * 2 / np.pi / np.sqrt(1 - rho**2)
print("∂f·∂f =", gradients, "; formula:", formula)
assert abs(gradients - formula) > 0.3
