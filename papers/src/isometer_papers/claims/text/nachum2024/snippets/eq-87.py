# eq. 85-87: at n = 5 and A + C = B + D the bound of eq. 85 gives less than pi/2 - sqrt(2 pi)/(n - 2)
import numpy as np

n, r = 5, 1.0
angle = np.arccos(4 / (np.sqrt(r + 1) * np.sqrt((n - 2) ** 2 * r + 1)))
eq87, eq88 = np.pi / 2 - np.sqrt(2 * np.pi) / (n - 2), np.pi / 2 - np.sqrt(2) * np.pi / (n - 2)
print("eq. 85 gives an angle of at least", angle, "; eq. 87 says", eq87, "and eq. 88", eq88)
assert eq88 <= angle < eq87
