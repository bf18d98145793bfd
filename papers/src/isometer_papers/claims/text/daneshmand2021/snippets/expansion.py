# Proof of Lemma 10: the line before h_4 and its expansion, in which 1/n is missing
from fractions import Fraction

n, t, delta = 3, Fraction(1), Fraction(1, 4)  # t is theta
line = 5 * (1 + 2 * t / n + 2 * t * delta / (n - 1)) - Fraction(n - 3, n - 1) * (1 + 2 * t / n - 2 * t * delta)
constant, last = Fraction(4 * n - 2, n - 1), 2 * t * delta * Fraction(n + 2, n - 1)
h4 = [constant + 2 * t * constant + last, constant + 2 * t * constant / n + last]
print("line", line, "h_4 as printed", h4[0], "with 1/n", h4[1])
assert line == h4[1] != h4[0]
