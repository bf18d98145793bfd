# proof of Lemma 17: the mean of v = w'σ(X)/√m moves by c(w·1)/√m, and that of σ(x)/√m by c/√m, not by c
import numpy as np

sigma, w, c, s = np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0]]), np.array([1.0, -3.0]), 0.5, 2.0  # batch of 3, m = 2
moved, root = (sigma - c) / s, np.sqrt(2)
batch, batch_printed = (moved @ w / root).mean(), ((sigma @ w / root).mean() - c) / s
layer, layer_printed = (moved[0] / root).mean(), ((sigma[0] / root).mean() - c) / s
print("batch norm:", batch, "printed:", batch_printed, "; layer norm:", layer, "printed:", layer_printed)
assert abs(batch - batch_printed) > 0.5
assert abs(layer - layer_printed) > 0.05
