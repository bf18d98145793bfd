# eq. 5.10: phi(x) = x^2/sqrt(3), kappa = (1 + 2 rho^2)/3, rho* = 1/2, kappa'(rho*) = 2/3, kappa'(1) = 4/3
rho = rho0 = 0.9
alpha = max(1 - 1 / 3, 2 / 3, (1 - 0.5) / (2 - 2 / 3))
for _ in range(20):
    rho = (1 + 2 * rho**2) / 3
left, bound = rho - 0.5, (rho0 - 0.5) / (1 - rho0) * alpha**20
print("|rho_20 - rho*| =", left, "bound:", bound, "corrected:", (rho0 - 0.5) / (1 - rho0) * 0.75**20)
assert left > bound
