# proof of Theorem 5.11, combining: kappa = 0.9 + 0.1 rho^20, alpha with the denominator 1 - kappa'(rho*)
rho, star = 1 - 1e-6, 0.9
for _ in range(500):
    star = 0.9 + 0.1 * star**20  # the fixed point in (0, 1), where the slope is below 1
slope = 2 * star**19
alpha, start = max(0.1, slope, (1 - star) / (1 - slope)), (rho - star) / 1e-6
for _ in range(20):
    rho = 0.9 + 0.1 * rho**20
print("|rho_20 - rho*| =", rho - star, "bound:", start * alpha**20, "alpha:", alpha)
assert rho - star > 2 * start * alpha**20
