# eq. 35e, 35f at t_1 = 1: the maximum is mean - least entry of the input, not its mean, and means need not shrink
import numpy as np

x0 = np.array([-20.0, -10.0, -8.0, 20.0])  # four clusters, kept by both transformations
x1 = np.maximum(x0.mean() - x0, 0)  # t_1 = 1: a negative transformation
x2 = np.maximum(x1.mean() - x1, 0)  # t_2 = 2: another one
print("largest entry at t_1:", x1.max(), "mean before:", x0.mean(), "mean at t_2:", x2.mean())
assert len(set(x2)) == 4 and x1.max() != x0.mean()
assert x2.mean() > (1 - 2 / 4) * x0.mean()
