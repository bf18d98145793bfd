# eq. 31 for mixed transformations: the clusters are reversed, so c_3 - c_2 changes although c = 5 > 3 stays
import numpy as np

x, found = np.array([0.0, 53.0, 56.0, 60.0, 88.0]), []
for sign in (1, -1):
    x = np.maximum(sign * (x - x.mean()), 0)
    c = np.unique(x.round(9))
    found.append((len(c), c[2] - c[1]))
print("clusters and c_3 - c_2 after each of two transformations:", found)
assert found[0][0] == found[1][0] > 3
assert abs(found[0][1] - found[1][1]) > 0.5
