# eq. 28b, 28c: for e^s > 1/(1 - gamma) the expression that is minimised is negative for odd n
import math

n, gamma, d, s = 3, 0.5, 18, 1.0
tail = sum(math.comb(d, j) * gamma**j * (1 - gamma) ** (d - j) for j in range(n))
bound = (gamma * math.exp(s) / (1 - (1 - gamma) * math.exp(s))) ** n * math.exp(-s * d)
print("P =", tail, "should be at most", bound)
assert tail > 0 > bound
