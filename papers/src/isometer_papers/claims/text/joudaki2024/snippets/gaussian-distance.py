# eq. B.43 for one number: tv(N(0, g), N(0, 1)) is of the order of g - 1, not of its square
import numpy as np
from scipy.stats import norm

for g in (1.1, 1.01):
    x = np.sqrt(g * np.log(g) / (g - 1))  # where the densities cross
    tv = 2 * (norm.cdf(x) - norm.cdf(x / np.sqrt(g)))
    print("g =", g, "tv =", tv, "3/2 (g - 1)^2 =", 1.5 * (g - 1) ** 2, "3/2 (g - 1) =", 1.5 * (g - 1))
    assert 1.5 * (g - 1) > tv > 1.5 * (g - 1) ** 2
assert tv > 10 * 1.5 * (g - 1) ** 2
