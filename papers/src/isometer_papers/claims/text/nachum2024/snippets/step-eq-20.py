# eq. 18, 20: the step past the hyperplane of the least |w x_i| also changes the sign of w x_2, even with |x_i|^2
import numpy as np

w, X = np.array([1.0, 1.0]), np.array([[0.5, 4.0], [0.0, -2.0]])  # samples in columns
i = np.argmin(np.abs(w @ X))
after = w - (1 + 1e-9) * (w @ X[:, i]) / (X[:, i] @ X[:, i]) * X[:, i]
print("w X before:", w @ X, "after:", after @ X, "chosen: column", i + 1)
assert (w @ X > 0).all()
assert (after @ X < 0).all()
