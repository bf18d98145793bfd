# Appendix E, last line: sum sigma^4 is below 1, and its square too small
import numpy as np

s = np.array([0.8, 0.48, 0.36])
sides = [s.sum() ** 2 * x for x in ((s**3).sum() ** 2, (s**4).sum() ** 2, (s**4).sum())]
print("sum sigma^2 =", (s**2).sum(), "left", sides[0], "right as printed", sides[1], "without the square", sides[2])
assert sides[1] < sides[0] < sides[2]
