# Lemma C.12, Theorem C.10: two rows in R^2 as complex numbers, weights that turn by L^-1/2: both sides grow like sqrt L
import numpy as np

for L in (400, 6400):
    W = np.array([[np.cos(L**-0.5), np.sin(L**-0.5)], [-np.sin(L**-0.5), np.cos(L**-0.5)]])
    X, total = np.exp(1j * np.array([[0, 0], [0.6, 0.6 + 1e-7]])), 0.0  # a batch, and beside it one with a row moved
    for _ in range(L):
        total, X = total - np.log(abs(W @ X)[:, 0].min()), W @ X / abs(W @ X)
    change = abs(X[:, 1] - X[:, 0]).max() / 1e-7
    print(L, "layers: the sum of log|J| is", total, "and the output changes by", change, "per unit")
assert min(total, change) > 30
