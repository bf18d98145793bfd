# Section III: batches of three, 100 neurons, 200 layers; leave out any sample: the other two are no cluster beside it
import numpy as np

rng, spreads = np.random.default_rng(0), []
for X in rng.standard_normal((20, 12, 3)):  # samples in columns
    for _ in range(200):
        Z = rng.standard_normal((100, len(X))) @ X
        X = np.maximum(Z - Z.mean(axis=1, keepdims=True), 0) / np.linalg.norm(Z)
    C = (X.sum(axis=1, keepdims=True) - X) / 2  # column j: the mean of the other two
    spreads.append(np.sqrt(min(((np.roll(X, 1, axis=1) - C) ** 2).sum(axis=0) / ((X - C) ** 2).sum(axis=0))))
print("distance of the others from their mean, over that of the sample left out:", np.mean(spreads))
assert np.mean(spreads) > 0.3
