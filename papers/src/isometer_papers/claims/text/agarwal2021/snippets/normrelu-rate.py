# I.1: α⁻ = 2σ̂_l(0.5) − 1 is 0.0800 for c = −1.5975; 0.0798 doubles the truncation of σ̂_l(0.5) to 0.5399
import mpmath as mp

c = mp.mpf("-1.5975")
b = (1 - mp.ncdf(c)) * c - mp.npdf(c)


def square(g):
    return mp.quad(lambda x: (max(mp.sqrt(g) * x - c, 0) + b) ** 2 * mp.npdf(x), [-20, c / mp.sqrt(g), 0, 20])


length = square(0.5) / square(1)
print("σ̂_l(0.5) =", length, "; α⁻ =", 2 * length - 1)
assert abs(2 * length - 1 - mp.mpf("0.0798")) > 1.5e-4
