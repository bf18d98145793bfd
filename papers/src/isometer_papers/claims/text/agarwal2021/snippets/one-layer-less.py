# §3.1 displays Φ with W_{L−1} outermost: L − 1 layers do not reach B(L, δ) at L = 1 and 2. Dual ½ρ + ½ρ², μ = ½
rho, mu, delta, cosines = 0.9, 0.5, 0.1, [0.9]
for _ in range(3):
    rho = (1 - mu) * rho + mu * rho**2
    cosines.append(rho)
bound = {L: 1 - delta * (1 + mu / 2) ** L for L in (1, 2)}  # B(L, δ) for L ≤ L₀(δ) = 8
print("with L − 1 layers:", cosines[:2], "; with L layers:", cosines[1:3], "; B(L, δ):", bound)
assert all(cosines[L - 1] > bound[L] > cosines[L] for L in bound)
