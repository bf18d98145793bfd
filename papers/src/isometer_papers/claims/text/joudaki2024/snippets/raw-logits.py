# Remark 6.7: the gradient of the squared error by the logits, without a softmax, has no bound
import numpy as np

y, sizes = np.array([1.0, 0.0, 0.0]), []
for scale in (10, 100, 1000):
    z = scale * np.array([-1.0, 1.0, 0.0])
    sizes.append(np.linalg.norm(2 * (z - y) / len(z)))
print("norms of the gradient:", sizes)
assert sizes[-1] > 100 * 2
