# after eq. 42: the row (0, 0, 0, c) has composition (3, 1), but 2 and n = 4 are in different clusters
import numpy as np

n, i, j = 4, 2, 4
rows = np.array([[0, 1, 1, 1], [0, 0, 0, 1]])  # the compositions (1, n-1) and (n-1, 1)
L = {k for k, row in enumerate(rows) if row.sum() in (1, n - 1)}
L_ij = {k for k in L if rows[k, i - 1] == rows[k, j - 1]}
print("L =", L, "and L_{2,n} =", L_ij)
assert L_ij != L
