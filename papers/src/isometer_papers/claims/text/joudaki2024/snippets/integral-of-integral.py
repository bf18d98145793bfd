# eq. A.11: g, with the integral in its brace, has no theta left, so that neither its integral nor theta h1 h2 make sense
from scipy.integrate import quad

n, delta = 3, 0.25
g0 = quad(lambda t: (1 + 2 * t / n) ** (-n / 2 - 1), 0, float("inf"))[0]
print("integral of g(0) up to T = 10:", 10 * g0, "; it should be below 1")
up, down = (lambda t: 1 + 2 * t * (1 / n - delta)), (lambda t: 1 + 2 * t * (1 / n + delta / (n - 1)))
slope = [t * up(t) ** -2.5 * down(t) ** -2 * (2 + 4 * t / n + t * delta * (2 * n + 4) / (n - 1)) for t in (1, 2)]
print("g'(1/4) at theta = 1 and 2:", slope)
assert 10 * g0 > 9 and abs(slope[0] - slope[1]) > 0.01
