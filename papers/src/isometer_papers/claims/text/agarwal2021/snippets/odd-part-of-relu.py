# before Theorem 58: ReLU = |x|/2 + x/2 has one odd Hermite coefficient, not infinitely many
import mpmath as mp


def he(k, x):
    return mp.hermite(k, x / mp.sqrt(2)) / mp.sqrt(mp.mpf(2) ** k * mp.factorial(k))


a = {k: mp.quad(lambda x, k=k: x * he(k, x) * mp.npdf(x), [0, 3, 8, 30]) for k in range(1, 12)}
print({k: mp.nstr(value, 3) for k, value in a.items()})
assert abs(a[1] - 0.5) < 1e-12
assert max(abs(a[k]) for k in (3, 5, 7, 9, 11)) < 1e-12 < min(abs(a[k]) for k in (2, 4, 6, 8, 10))
