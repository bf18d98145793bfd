# proof of Lemma 17: with μ of v in place of μ̃ of ṽ the deviation is not ν/s
import numpy as np

sigma, w, c, s = np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0]]), np.array([1.0, -3.0]), 0.5, 2.0  # batch of 3, m = 2
v, moved = sigma @ w / np.sqrt(2), (sigma - c) / s @ w / np.sqrt(2)
printed, right = np.sqrt(((moved - v.mean()) ** 2).mean()), np.sqrt(((moved - moved.mean()) ** 2).mean())
print("printed:", printed, "; with its own mean:", right, "; ν/s:", v.std() / s)
assert abs(printed - v.std() / s) > 0.5
