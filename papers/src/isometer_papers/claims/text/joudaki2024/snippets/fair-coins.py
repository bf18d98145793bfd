# Lemmas B.1, B.2: n = B = 1, x_i in {0, 1} fair, d odd, C = 1/2: |C_d - C| >= 1/(2d), whatever the constant c
import math

for c in (3, 100):
    d = 101
    t = 1 / (2 * d) * math.sqrt(d) / c  # c t eps = 1/(2d); both sides of Lemma B.2 are twice as large
    print("c =", c, "t =", t, "P = 1, bound:", math.exp(-(t**2)))
    assert math.exp(-(t**2)) < 1
assert t > 0
