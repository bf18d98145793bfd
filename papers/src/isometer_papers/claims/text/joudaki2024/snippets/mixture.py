# eq. B.47, n = d = 1, G_* = 1, G = 1/2 or 2 with equal chances: the mixture is closer to N(0, 1) than its parts are
import numpy as np
from scipy.stats import norm

x = np.linspace(-15, 15, 300_001)
parts = [norm.pdf(x, scale=np.sqrt(g)) for g in (0.5, 2.0)]
left = np.trapezoid(abs(sum(parts) / 2 - norm.pdf(x)), x) / 2
right = sum(np.trapezoid(abs(part - norm.pdf(x)), x) / 2 for part in parts) / 2
print("left:", left, "right:", right)
assert left < 0.4 * right
