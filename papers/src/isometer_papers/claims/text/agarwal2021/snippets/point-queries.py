# Theorem 15 on half of {±1}^d at L = 2^d: |S| = L/2 queries of tolerance 1/L reveal every label, whatever the oracle
import numpy as np

rng, queries = np.random.default_rng(0), {}
for d in (3, 6, 9, 12):
    S, L = 2 ** (d - 1), 2**d
    labels = rng.choice([-1.0, 1.0], S)
    answers = labels / S - labels / L  # E[f(x) 1{x = point}], as wrong as the tolerance allows
    queries[L] = S if (np.sign(answers) == labels).all() else np.inf
print("depth and queries:", queries, "; log p/L:", {L: float(np.log(p) / L) for L, p in queries.items()})
assert all(p <= L for L, p in queries.items())
