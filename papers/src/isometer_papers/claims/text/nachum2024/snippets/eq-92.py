# eq. 90, 92 with eq. 74-76: |x_1| stands where |x_n| is meant
import numpy as np

n, A, B = 5, 1.0, 4.0  # C = D = 0
first, second, last = (n - 1) ** 2 * A + B, A + B, A + (n - 1) ** 2 * B  # n^2 times eq. 74, 75, 76
left = [A / np.sqrt(second * other) for other in (first, last)]
right = 1 / np.sqrt((1 + (n - 1) ** 2 * B / A) * (1 + B / A))
print("with |x_1|:", left[0], "with |x_n|:", left[1], "right side:", right)
assert abs(left[1] - right) < 1e-12 < 0.04 < abs(left[0] - right)
