# Proof of Theorem 5.11, case 4: kappa = (1 + 2 rho^2)/3, rho* = 1/2; kappa(rho*) is printed for kappa(rho)
rho, star = 0.9, 0.5
kappa, at_star = ((1 + 2 * x**2) / 3 for x in (rho, star))
left, printed = (kappa - star) / (1 - kappa), (kappa - star) / (1 - at_star)
print("left side:", left, "printed right side:", printed, "with kappa(rho):", (kappa - star) / (1 - kappa))
assert abs(at_star - star) < 1e-12
assert abs(left) > 3 * abs(printed)
