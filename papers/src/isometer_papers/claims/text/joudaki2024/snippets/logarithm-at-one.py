# Theorem B.6, Lemmas B.4, B.5: two samples, ReLU, G_* = I/2; B > 1 such that eps is just below 1; alpha = 2^-d, deep
from math import comb, log1p

c, t, d, gap = 10, 0.3, 5, 1e-6
tail = sum(comb(d, k) for k in range(d + 1) if 2 * (k / d - 0.5) ** 2 >= t**2) / 2**d
bound = -c / t**2 * 2**d * (1 - gap) ** 2 * log1p(-gap)
print("P(|G_* - G| >= 0.3) =", tail, "bound of eq. B.19 with B = 1.118, ten times:", bound)
width, close = 17, 1e-13
lemma, rank_one = -c * 2**width * (1 - close) ** 2 * log1p(-close), 2.0 ** (1 - width)  # chance of rank one in mu_*
print("total variation: at least", rank_one, "bound of eq. B.17 with B = 1.03:", lemma)
assert tail > 10 * bound and rank_one > 10 * lemma
