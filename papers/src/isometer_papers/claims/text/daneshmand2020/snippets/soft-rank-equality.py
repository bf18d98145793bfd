# Section 2.2: singular values can be equal to sqrt(N tau), and the soft rank equal to the rank
import numpy as np

H, tau = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]), 1.0
values = np.sqrt(np.round(np.linalg.svd(H, compute_uv=False) ** 2, 12))
soft, words = (values**2 / 4 >= tau).sum(), (values > np.sqrt(4 * tau)).sum()
print("eq. 4:", soft, "singular values greater than sqrt(N tau):", words, "rank:", np.linalg.matrix_rank(H))
assert soft == np.linalg.matrix_rank(H) == 3
assert words == 0
