# eq. 24 on half of {±1}³ for sin, g = 1 and infinite width: the diagonal alone gives 1/|S| = ¼ at every depth
import numpy as np

S = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]])
rho, L = S @ S.T / 3, 400
for _ in range(L):
    rho = np.sinh(rho) / np.sinh(1)  # the dual of normalised sin; μ = 1 − 1/sinh(1)
value, bound = np.arcsin(rho.clip(-1, 1)).mean() * 2 / np.pi, L * (1 - (1 - 1 / np.sinh(1)) / 4) ** L
print("E(E g sgn f)² =", value, "; L(1 − μ/4)^L =", bound)
assert value > bound + 0.2
