# proof of Lemma 26: the derivative of Σ a_i² ρ^i has ρ^(i−1). Squares ½ (degree 1), ¼ (2), ¼ (3)
squares, rho, step = {1: 0.5, 2: 0.25, 3: 0.25}, 0.5, 1e-6


def dual(r):
    return sum(a * r**i for i, a in squares.items())


slope = (dual(rho + step) - dual(rho - step)) / (2 * step)
printed = squares[1] + sum(i * a * rho**i for i, a in squares.items() if i > 1)
print("derivative:", slope, "; printed:", printed)
assert abs(slope - printed) > 0.2
