# eq. 21: unfold(H) of 3 channels and 2 x 2 kernels has 12 rows, so that W is d x 12, not d x 4
import numpy as np

H = np.arange(48.0).reshape(3, 4, 4)  # channels, height, width
unfolded = np.stack([H[:, r : r + 2, c : c + 2].ravel() for r in range(3) for c in range(3)], axis=1)
print("rows of unfold(H):", unfolded.shape[0], "k^2:", 2**2)
assert unfolded.shape[0] != 2**2
