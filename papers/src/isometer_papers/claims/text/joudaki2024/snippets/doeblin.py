# §3.4.1: x' = x/2 + N(0, 1) reaches everything from everywhere, and yet no alpha > 0 serves all pairs of states
from math import erf, sqrt

overlaps = [1 - erf(x / sqrt(8)) for x in (8, 20, 32)]  # 1 - tv of the laws of x' from x and from -x
print("1 - tv from x and -x, x = 8, 20, 32:", overlaps)
assert overlaps[0] < 1e-3
assert max(overlaps[1:]) < 1e-13
