# Theorem 2.1 and its induction, width to infinity: squared singular values follow p of eq. A.10, too slowly for alpha
from scipy.integrate import quad

n, layers, a = 48, 99, [0.125]  # one squared singular value a, 47 equal ones b
for _ in range(layers + 1):
    x, b = a[-1], (1 - a[-1]) / (n - 1)
    a.append(quad(lambda t, x=x, b=b: x * (1 + 2 * t * x) ** -1.5 * (1 + 2 * t * b) ** (-(n - 1) / 2), 0, 2000)[0])
alpha, hat = (min(1 - x for x in a[1:-1]) / (n - 1)) ** 0.5, [1 / n - (1 - x) / (n - 1) for x in a]
gap, rate = (a[-1] - 1 / n) * (1 + 1 / (n - 1)) ** 0.5, (1 - 2 / 3 * alpha) ** layers
print("V", gap, "<=", 2 * rate, "and Lyapunov function", hat[-1], "<=", rate * hat[1])
assert gap > 2 * 2 * rate
assert hat[-1] > 10 * rate * hat[1]
