# Table C.1: 128 independent samples whose singular values span four decades; float32 squares do not see all of them
import numpy as np

rng = np.random.default_rng(1)
U, V = np.linalg.qr(rng.standard_normal((128, 128)))[0], np.linalg.qr(rng.standard_normal((200, 128)))[0]
X = (U * np.logspace(0, -4, 128)) @ V.T
rank, table = np.linalg.matrix_rank(X), np.linalg.matrix_rank((X @ X.T).astype(np.float32))
print("rank of the batch:", rank, "matrix_rank of its Gram matrix in float32:", table)
assert rank == 128 > table + 30
