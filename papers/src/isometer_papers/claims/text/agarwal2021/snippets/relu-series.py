# table of C.4: the coefficient of ρ² in the dual of ReLU is a_2² = 1/4π, as the closed form has it, not 1/2π
import mpmath as mp

second = mp.quad(lambda x: x * (x * x - 1) / mp.sqrt(2) * mp.npdf(x), [0, 4, 20]) ** 2


def closed(r):
    return (mp.sqrt(1 - r * r) + (mp.pi - mp.acos(r)) * r) / (2 * mp.pi)


series = mp.taylor(closed, 0, 2)[2]
print("a_2² =", second, "; closed form:", series, "; printed:", 1 / (2 * mp.pi))
assert abs(second - 1 / (2 * mp.pi)) > 0.05
assert abs(series - 1 / (2 * mp.pi)) > 0.05
