# eq. B.13 to B.14: t/(6nB) for t sqrt(8) B n/sqrt d in place of t
import math

n, B, d, t = 3, 2.0, 40, 0.5
new = t * math.sqrt(8) * B * n / math.sqrt(d) / (6 * n * B)
print("after renaming:", new, "printed:", t / (3 * math.sqrt(2) * d), "or", t / (3 * math.sqrt(2 * d)))
assert new > 1.9 * t / (3 * math.sqrt(2 * d)) > t / (3 * math.sqrt(2) * d)
