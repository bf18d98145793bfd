# I.1: a_0 at γ = 1 is the mean of NormReLU, which is 0, not 1
import mpmath as mp

c = mp.mpf("-1.5975")
b = (1 - mp.ncdf(c)) * c - mp.npdf(c)
mean = 1.05 * mp.quad(lambda x: (max(x - c, 0) + b) * mp.npdf(x), [-20, c, 0, 20])
print("a_0 =", mean)
assert abs(mean - 1) > 0.9
