# Section 2.2.2, two samples, width to infinity: lambda -> sqrt(lambda)/(sqrt(lambda) + sqrt(1 - lambda)), pi at 1/2
import numpy as np

first = 0.8  # the larger squared singular value of H_0
after = np.sqrt(first) / (np.sqrt(first) + np.sqrt(1 - first))
stationary, before, behind = ((x - 0.5) * (x - 0.8) for x in (0.5, first, after))  # a function phi of lambda
print("E_pi phi =", stationary, "phi(H_0) =", before, "phi(H_1) =", behind)
assert abs(behind - stationary) > 0.02 > abs(before - stationary)
