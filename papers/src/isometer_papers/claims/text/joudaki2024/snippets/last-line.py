# Proof of Theorem 2.1: 2n times the bound of the induction is 3n/(alpha sqrt d), not 3n/(2 alpha sqrt d)
n, alpha, layers, d, hat = 4, 0.25, 20, 4096, 1 / 4
before = 2 * n * ((1 - 2 / 3 * alpha) ** layers * hat + 3 / (2 * alpha * d**0.5))
last = 2 * (1 - 2 / 3 * alpha) ** layers + 3 * n / (2 * alpha * d**0.5)
print("2n times the induction:", before, "last line:", last)
assert before > 1.5 * last
