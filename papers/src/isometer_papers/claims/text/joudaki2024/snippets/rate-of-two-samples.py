# Chapter 2: for two samples and width to infinity the gap halves per layer, and alpha of A_1 is near 1/sqrt 2
from scipy.integrate import quad

a = [0.8]  # the larger of two squared singular values, which follow p of eq. A.8
for _ in range(13):
    x = a[-1]
    a.append(quad(lambda t, x=x: x * (1 + 2 * t * x) ** -1.5 * (1 + 2 * t * (1 - x)) ** -0.5, 0, float("inf"))[0])
factor, alpha = (a[-1] - 0.5) / (a[-2] - 0.5), min(1 - x for x in a[1:]) ** 0.5
print("factor per layer", factor, "1 - alpha =", 1 - alpha)
assert factor > 1.1 * (1 - alpha)
