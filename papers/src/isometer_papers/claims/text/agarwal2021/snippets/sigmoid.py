# D.4: the norm part asks for σ(0) = 0, and sigmoid is said to satisfy it
import math

at_zero = 1 / (1 + math.exp(-0.0))
print("sigmoid(0) =", at_zero)
assert at_zero > 0.4
