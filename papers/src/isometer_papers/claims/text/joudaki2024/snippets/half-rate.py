# eq. A.16, A.18 with sigma_2^2 = sigma_3^2 = e^(-delta l) sigma_1^2, n = 3: -delta/2 and -3 delta/4, not -delta
import numpy as np

delta, layers = 1.0, 200
small = np.exp(-delta * layers)  # sigma_j^2 / sigma_1^2; 1 - sigma_1^2/sum = 2 small/(1 + 2 small)
left, right = np.log(2 * small / (1 + 2 * small)) / (2 * layers), np.log(3 * small) / layers
total = np.log(6 * small) / (4 * layers) + np.log(2 * (2 * small) ** 2) / (4 * layers)
print("A.16:", left, "<=", right, "; A.18:", total, "<=", -delta)
assert left > right + 0.4
assert total > -delta + 0.2
