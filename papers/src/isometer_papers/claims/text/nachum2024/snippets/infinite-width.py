# Section III: at infinite width (eq. 8, 111) three samples become a simplex: all lengths equal, no odd point
import numpy as np

X = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 2.0]])  # samples in columns
G, P = X.T @ X, np.eye(3) - 1 / 3
for _ in range(150):
    C = P @ G @ P
    s = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    rho = np.clip(C / s, -1, 1)
    G = s * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi / np.trace(C)
print("lengths after 150 layers:", np.sqrt(np.diag(G)))
assert np.ptp(np.sqrt(np.diag(G))) < 1e-6
