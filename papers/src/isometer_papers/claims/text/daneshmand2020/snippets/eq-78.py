# eq. 78: T_2 is half the second derivatives times E dM dM = gamma^2 K (eq. 75); the line leaves out gamma^2
import numpy as np

M, g, i, j = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]]), 0.1, 0, 1
S, m = M @ M, M[0, 1]
K = {"ij,ij": S[j, j] + S[i, i], "ij,ii": 2 * S[i, j], "ij,jj": 2 * S[i, j], "ii,ii": 4 * S[i, i], "jj,jj": 4 * S[j, j]}
D = {"ij,ij": 2, "ij,ii": -2 * m, "ij,jj": -2 * m, "ii,ii": 2 * m**2, "jj,jj": 2 * m**2}  # eq. 76, 77
T2 = g**2 / 2 * sum((1 if a[:2] == a[3:] else 2) * D[a] * K[a] for a in K)
printed = S[j, j] + S[i, i] - 8 * m * S[i, j] + 4 * m**2 * (S[i, i] + S[j, j])
print("T_2 =", T2, "eq. 78:", printed, "times gamma^2:", g**2 * printed)
assert abs(T2 - g**2 * printed) < 1e-12 < abs(T2 - printed)
