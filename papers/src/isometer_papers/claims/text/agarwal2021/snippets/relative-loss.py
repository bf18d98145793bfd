# Theorem 51: a_i = e_i, β = λ_min = 1, η = ½: a step solves one of three equations, so E 𝓛 falls by ⅔ whatever its size
import math

import numpy as np

n, epsilon, start = 3, 0.5, (np.array([300.0, -200.0, 100.0]) ** 2).mean()
steps = math.ceil(8 * n * math.log(1 / epsilon))
loss = (1 - 1 / n) ** steps * start
print("E 𝓛 after", steps, "steps:", loss, "which should be at most", epsilon)
assert loss > 40 * epsilon
