# Proof of Lemma A.7: the printed derivative of h_1 against a difference quotient
n, theta, delta, e = 4, 1.0, 0.1, 1e-6


def product(x, first, second):
    return (1 + 2 * theta * (1 / n - x)) ** first * (1 + 2 * theta * (1 / n + x / (n - 1))) ** second


slope = (product(delta + e, -2.5, -(n - 1) / 2 - 1) - product(delta - e, -2.5, -(n - 1) / 2 - 1)) / (2 * e)
lines = [
    5 * (1 + 2 * theta / n + 2 * theta * delta / (n - 1)) - c * (1 + 2 * theta / n - 2 * theta * delta)
    for c in (1 / 3, 5 / 3)
]
print("h_1' =", slope, "printed, corrected:", [theta * product(delta, -3.5, -(n - 1) / 2 - 2) * x for x in lines])
assert abs(theta * product(delta, -3.5, -(n - 1) / 2 - 2) * lines[0] - slope) > 0.1 * slope
