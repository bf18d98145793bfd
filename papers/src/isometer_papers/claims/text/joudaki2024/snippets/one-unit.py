# eq. B.40, n = 2, ReLU: G_* = I/2, B = 1, eps = 4/sqrt d; for odd d the deviation is at least sqrt(2)/d
import math

d = 3
t = math.sqrt(2) / d / (4 / math.sqrt(d))
print("t =", t, "P = 1, bound:", math.exp(-(t**2)))
assert math.exp(-(t**2)) < 0.96
