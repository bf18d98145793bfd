# §5.1: phi = sin, pairs of inputs of one cosine and two lengths; the next cosine differs
import numpy as np

rng = np.random.default_rng(1)
x, z = rng.standard_normal((2, 200_000))  # pre-activations of 200,000 units
y, found = 0.5 * x + np.sqrt(0.75) * z, []
for size in (0.5, 2.0):
    a, b = np.sin(size * x), np.sin(size * y)
    found.append((a * b).mean() / np.sqrt((a**2).mean() * (b**2).mean()))
print("cosine 1/2 becomes", found, "exactly", [np.sinh(q / 2) / np.sinh(q) for q in (0.25, 4.0)])
assert found[0] > found[1] + 0.2
