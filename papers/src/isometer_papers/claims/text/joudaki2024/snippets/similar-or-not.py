# §5.1: phi(x) = x^2 has the positive fixed point 1/2; samples of cosine 0.9 become less similar
rho, path = 0.9, []
for _layer in range(6):
    path.append(rho)
    rho = (1 + 2 * rho**2) / 3
print("cosines:", path, "and the fixed point 1/2")
assert path == sorted(path, reverse=True)
assert 0.5 < min(path) < 0.75 < max(path)
