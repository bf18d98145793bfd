# eq. 35d: for t_2 = t_1 + 1 both sides are the same, so the sign cannot be strict
import numpy as np

x0 = np.array([0.0, 10.0, 12.0, 40.0])
x1 = np.maximum(x0.mean() - x0, 0)  # t_1: a negative transformation
x2 = np.maximum(x1.mean() - x1, 0)  # t_2 = t_1 + 1: another one
factor = 1 - np.count_nonzero(x2) / len(x2)
left, right = factor * (x1.max() - x1.mean()), factor * (x1.max() - x1.mean())
print("mean after t_2:", x2.mean(), "left:", left, "right:", right)
assert left == right == x2.mean()
