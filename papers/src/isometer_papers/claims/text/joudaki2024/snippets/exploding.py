# §5.3: phi(x) = 2x is square-integrable, and the activations grow like 4^l
import numpy as np

rng, d = np.random.default_rng(1), 400
h = np.sqrt(d) * np.eye(d)[0]
sizes = []
for _layer in range(8):
    h = 2 * (rng.standard_normal((d, d)) / np.sqrt(d) @ h)
    sizes.append((h**2).mean())
print("mean squares of the activations:", sizes)
assert sizes[-1] > 1000 * sizes[0]
