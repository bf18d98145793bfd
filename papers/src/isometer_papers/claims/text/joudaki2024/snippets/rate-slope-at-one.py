# eq. 5.7, 5.14: phi = (he_1 + he_9)/sqrt(2), kappa = (rho + rho^9)/2 has kappa(0) = 0, kappa(1) = 1, kappa'(1) = 5
rho, start = 0.3, 0.3 / (1 - 0.3)
for _ in range(5):
    rho = (rho + rho**9) / 2
Psi = rho / (1 - rho)
print("Psi after 5 layers:", Psi, "printed bound:", start / 5**5, "bound of Theorem 5.8:", start / (2 - 0.5) ** 5)
assert start / (2 - 0.5) ** 5 > Psi > 50 * start / 5**5
