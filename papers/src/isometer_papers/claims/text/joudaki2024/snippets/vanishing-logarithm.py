# eq. B.45 to B.46, and B.29 to B.32 with |G_*| = 2: no constant makes up for what is left out as eps tends to 1
import numpy as np

eps = np.array([0.5, 0.99, 0.9999])
first = 1.5 * eps**2 * (1 + np.log(1 / eps**2)) / (eps**2 * np.log(1 / eps**2))
second = np.log(2 / eps) / np.log(1 / eps)
print("constants that B.46 needs:", first, "and B.32:", second, "at eps =", eps)
assert min(first[1], second[1]) > 10
assert min(first[2], second[2]) > 1000
