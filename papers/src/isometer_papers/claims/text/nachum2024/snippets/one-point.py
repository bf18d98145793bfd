# Our Contribution: 15 samples at infinite width, one of them odd; the others keep angles of about 30 degrees
import numpy as np

G, P = np.diag([36.0] + [1.0] * 14), np.eye(15) - 1 / 15
for _ in range(100):
    C = P @ G @ P
    s = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    rho = np.clip(C / s, -1, 1)
    G = s * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi / np.trace(C)
cosine = G[1, 2] / G[1, 1]
print("lengths:", G[0, 0] ** 0.5, G[1, 1] ** 0.5, "angle within the cluster:", np.degrees(np.arccos(cosine)))
assert cosine < 0.95
