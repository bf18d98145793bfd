# proof of Theorem 5.11, case 4: kappa = (1 + 2 rho^2)/3, rho* = 1/2, kappa'(rho*) = 2/3; both factors are too small
rho, star, slope = 0.9, 0.5, 2 / 3
after = (1 + 2 * rho**2) / 3
ratio = (after - star) / (1 - after) / ((rho - star) / (1 - rho))
print("ratio:", ratio, "first form:", slope, "second:", (1 - star) / (2 - slope), "corrected:", 1 / (2 - slope))
assert 1 / (2 - slope) > ratio > slope > (1 - star) / (2 - slope)
