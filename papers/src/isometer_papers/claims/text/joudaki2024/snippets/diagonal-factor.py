# §1.1: batch norm of eq. 2.1 is D X with D_jj = 1/|X_j|, which falls with the standard deviation of the feature
import numpy as np

X = np.array(
    [[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]]
)  # features as rows; without a mean subtracted std is the root mean square
std = np.sqrt((X**2).mean(axis=1))
D = np.diag(X @ X.T) ** -0.5
print("D =", D, "std =", std)
assert np.allclose(D[0] / D[1], std[1] / std[0])
assert D[0] / D[1] > 3 * std[0] / std[1]
