# proof of Theorem 5.11, cases 2 and 3: (1 - kappa(rho))/(1 - rho) = (2 + rho)/3 for kappa = (1 + rho + rho^2)/3
rho = 0.9
tail = [rho**k / (1 - rho) for k in (1, 2)]  # sum of rho^i over i >= k
head = [(1 - rho**k) / (1 - rho) for k in (1, 2)]  # over i < k
printed = 1 - sum(k - s for k, s in zip((1, 2), tail, strict=True)) / 3
meant = 1 - sum(k - s for k, s in zip((1, 2), head, strict=True)) / 3
print("chord:", (2 + rho) / 3, "printed:", printed, "with i < k:", meant, "; the term k = 1:", 1 - tail[0])
assert abs(meant - (2 + rho) / 3) < 1e-12
assert printed > 5 > 0 > 1 - tail[0]
