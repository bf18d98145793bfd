# Proof of Theorem 5.11, case 4: kappa = (1 + rho + 2 rho^2)/4, rho* = 1/2; the line has kappa(rho) for kappa(-rho)
star, rho = 0.5, 0.9
at, reflected = ((1 + x + 2 * x**2) / 4 for x in (rho, -rho))
left, right = abs(at - star) / (rho + star), (star - reflected) / (star + rho)
print("kappa(-rho) =", reflected, "printed left side:", left, "right side:", right)
assert max(reflected, 0) < star
assert abs(left - right) > 0.05
