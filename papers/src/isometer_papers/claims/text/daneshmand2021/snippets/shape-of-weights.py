# weights of shape d x n cannot be applied to a batch of shape d x n unless n = d
import numpy as np

n, d = 2, 3
W, H = np.ones((d, n)), np.ones((d, n))
print("columns of W:", W.shape[1], "rows of H:", H.shape[0])
assert W.shape[1] != H.shape[0]
