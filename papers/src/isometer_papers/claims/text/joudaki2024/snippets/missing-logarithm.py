# after eq. 3.8: eq. 3.6 over alpha, against the radius without its logarithm
import numpy as np

n, alpha = 10, 0.5
for d in (1e4, 1e6, 1e8):
    bound, radius = n**2 / d * np.log(d / n) / alpha, n**2 / (d * alpha)
    print("d =", d, "bound from eq. 3.6 and 3.8:", bound, "radius in the text:", radius)
assert bound > 10 * radius
