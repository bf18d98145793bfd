# proof of Theorem 5.11, case 4: kappa = (1 + 2 rho^2)/3 is 1 - (1 - rho) q with q = b_0 + b_1 rho, b_0 = b_1 = 2/3
b, rho = (2 / 3, 2 / 3, 0.0), 0.5
kappa = (1 + 2 * rho**2) / 3
printed = 1 - b[0] + sum((b[k] - b[k + 1]) * rho**k for k in (0, 1))
meant = 1 - b[0] + sum((b[k] - b[k + 1]) * rho ** (k + 1) for k in (0, 1))
print("kappa(rho) =", kappa, "printed:", printed, "with rho^(k+1):", meant)
assert abs(meant - kappa) < 1e-12
assert abs(printed - kappa) > 0.1
