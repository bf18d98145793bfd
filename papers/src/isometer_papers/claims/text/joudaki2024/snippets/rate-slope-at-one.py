# eq. 5.7, 5.14: phi = (he_1 + he_9)/sqrt(2) is centred, E phi^2 = 1, kappa = (rho + rho^9)/2, kappa'(1) = 5, kappa'(0) = 1/2
rho = rho0 = 0.3
Psi = lambda r: abs(r) / (1 - abs(r))
for _ in range(5):
    rho = (rho + rho**9) / 2
print("Psi after 5 layers:", Psi(rho), "printed bound:", Psi(rho0) / 5**5, "bound of Theorem 5.8:", Psi(rho0) / 1.5**5)
assert Psi(rho0) / 1.5**5 > Psi(rho) > 50 * Psi(rho0) / 5**5
