# Corollary 2.3, width to infinity, where squared singular values follow p of eq. A.10: W_2^2 falls too slowly for alpha
from scipy.integrate import quad

n, layers, a = 200, 540, [0.125]  # one squared singular value a, 199 equal ones b
for _ in range(layers):
    x, b = a[-1], (1 - a[-1]) / (n - 1)
    a.append(quad(lambda t, x=x, b=b: x * (1 + 2 * t * x) ** -1.5 * (1 + 2 * t * b) ** (-(n - 1) / 2), 0, 100)[0])
b = (1 - a[-1]) / (n - 1)
distance = (a[-1] ** 0.5 - n**-0.5) ** 2 + (n - 1) * (b**0.5 - n**-0.5) ** 2
alpha = (min(1 - x for x in a[1:]) / (n - 1)) ** 0.5
print("W_2^2 =", distance, "<=", 4 * n * (1 - 2 / 3 * alpha) ** layers)
assert distance > 1.5 * 4 * n * (1 - 2 / 3 * alpha) ** layers
