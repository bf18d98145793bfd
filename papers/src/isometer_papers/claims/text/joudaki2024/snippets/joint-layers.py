# under Theorem 3.2, n = 2, ReLU, d = 4: layers are independent, G_l = diag(k, d - k)/d, k ~ Bin(d, 1/2), G_* = I/2
d, t = 4, 0.7
far = 2 * 0.5**d  # k = 0 or d, at distance sqrt(1/2) > t
for layers in (1, 2, 10, 100):
    print("layers:", layers, "P(max distance >= t) =", 1 - (1 - far) ** layers)
assert t < 0.5**0.5
assert 1 - (1 - far) ** 100 > 0.99 > 0.2 > far
