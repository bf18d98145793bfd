# proof of Lemma 1: squared singular values over N are the eigenvalues of M = H H^T/N, not of H
import numpy as np

H = np.array([[2.0, 1.0], [1.0, 3.0]])
scaled, of_h, of_m = np.linalg.svd(H)[1] ** 2 / 2, np.linalg.eigvals(H), np.linalg.eigvals(H @ H.T / 2)
print("squared singular values over N:", np.sort(scaled), "eigenvalues of H:", np.sort(of_h), "of M:", np.sort(of_m))
assert np.allclose(np.sort(scaled), np.sort(of_m))
assert abs(np.sort(scaled) - np.sort(of_h)).max() > 1
