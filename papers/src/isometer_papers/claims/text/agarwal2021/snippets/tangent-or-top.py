# Theorem 9: the top-layer kernel has 1 on its diagonal; with the dual (rho + rho^3)/2, L = 12 and inputs of cosine 1/2
L, rho, mu, delta = 12, 0.5, 0.5, 0.5
for _ in range(L):
    rho = (rho + rho**3) / 2
smallest, diagonal = 1 - rho, sum(2.0**h for h in range(L + 1))  # slope of the dual at 1: 2
bound = (1 - 2 * (1 - mu / 2) ** (L / 2) / 2) * diagonal  # B(L/2, delta) for delta = 1/2: (1 - mu/2)^{L/2}/2
print("lambda_min of the top-layer kernel:", smallest, "bound:", bound)
assert smallest < 1 < bound
