# under eq. C.55: the lower end of the interval is -0.317 as printed, -0.314 with the right root
import numpy as np

printed, right = (1 - np.sqrt(74)) / 24, (1 - np.sqrt(73)) / 24
print("lower end:", printed, "with the right root:", right, "printed as a number: -0.35")
assert abs(printed + 0.35) > 0.03
assert abs(right + 0.35) > 0.03
