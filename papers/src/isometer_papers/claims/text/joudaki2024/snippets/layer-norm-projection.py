# after Corollary 4.4: layer norm of eq. 5.13 is not x -> sqrt(d) x/|x|; it subtracts the mean first
import numpy as np

x = np.array([1.0, 2.0, 6.0])
layer_norm = (x - x.mean()) / x.std()
on_sphere = np.sqrt(3) * x / np.linalg.norm(x)
print("LN(x) =", layer_norm, "on the sphere:", on_sphere)
assert np.abs(layer_norm - on_sphere).max() > 1
