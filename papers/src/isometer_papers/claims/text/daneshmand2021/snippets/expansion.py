# Proof of Lemma 10: the line before h_4 and its expansion, in which 1/n is missing
from fractions import Fraction

n, theta, delta = 3, Fraction(1), Fraction(1, 4)
line = 5 * (1 + 2 * theta / n + 2 * theta * delta / (n - 1)) - Fraction(n - 3, n - 1) * (
    1 + 2 * theta / n - 2 * theta * delta
)
h4 = [
    Fraction(4 * n - 2, n - 1) * (1 + 2 * theta * c) + 2 * theta * delta * Fraction(n + 2, n - 1)
    for c in (1, Fraction(1, n))
]
print("line", line, "h_4 as printed", h4[0], "with 1/n", h4[1])
assert line == h4[1] != h4[0]
