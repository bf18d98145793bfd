# eq. 5: FBN divides by the norm of every row of H + gamma W H, and a row can vanish
import numpy as np

H, W, gamma = np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]]), np.array([[-1.0, 0.0], [0.0, 1.0]]), 1.0
rows = np.linalg.norm(H + gamma * W @ H, axis=1)
print("norms of the rows:", rows)
assert rows[0] == 0
