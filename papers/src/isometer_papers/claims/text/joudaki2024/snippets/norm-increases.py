# proof of Theorem 5.11, combining: kappa = (1 + 2 rho^2)/3 takes rho_0 = -0.1 to 0.34, so |rho_0| >= rho_1 fails
rho0, star = -0.1, 0.5
rho1 = (1 + 2 * rho0**2) / 3
print("|rho_0| =", abs(rho0), "rho_1 =", rho1, "rho* =", star)
assert 0 <= rho1 < star
assert rho1 > 3 * abs(rho0)
