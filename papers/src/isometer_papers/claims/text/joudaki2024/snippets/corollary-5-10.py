# Corollary 5.10 and its proof: for kappa = (rho + rho^3)/2 and rho_0 = -0.9 the bound is negative, and |rho| <= 1 - |rho| is not true
rho, alpha = -0.9, 1 / (2 - 0.5)
after = (rho + rho**3) / 2
print(
    "|rho_1| =",
    abs(after),
    "printed bound:",
    rho / (1 - abs(rho)) * alpha,
    "with |rho_0|:",
    abs(rho) / (1 - abs(rho)) * alpha,
)
print("|rho_1| =", abs(after), "and 1 - |rho_1| =", 1 - abs(after))
assert abs(after) > 0 > rho / (1 - abs(rho)) * alpha
assert abs(after) > 1 - abs(after)
