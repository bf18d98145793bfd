# eq. A.6 from sigma_n = alpha: 1/n - p_n is below the mean of the Lyapunov function, and above the bound
from scipy.integrate import quad

n, small, d = 16, 0.0125, 10**6  # sigma_n^2 = small, the others equal
b = (1 - small) / (n - 1)
share = quad(lambda t: small * (1 + 2 * t * small) ** -1.5 * (1 + 2 * t * b) ** (-(n - 1) / 2), 0, 1e4)[0]
bounds = [(1 - 2 / 3 * rate) * (1 / n - small) + d**-0.5 for rate in (small**0.5, small)]
print("1/n - p_n =", 1 / n - share, "bound with alpha:", bounds[0], "with alpha^2:", bounds[1])
assert bounds[0] < 1 / n - share < bounds[1]
