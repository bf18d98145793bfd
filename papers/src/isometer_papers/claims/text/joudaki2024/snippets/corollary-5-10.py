# Corollary 5.10: kappa = (rho + rho^3)/2, rho_0 = -0.9; the bound is negative, and |rho_1| exceeds 1 - |rho_1|
rho, alpha = -0.9, 1 / (2 - 0.5)
after, bound = (rho + rho**3) / 2, rho / (1 - abs(rho)) * alpha
print("|rho_1| =", abs(after), "printed bound:", bound, "with |rho_0|:", abs(bound))
print("|rho_1| =", abs(after), "and 1 - |rho_1| =", 1 - abs(after))
assert abs(after) > 0 > bound
assert abs(after) > 1 - abs(after)
