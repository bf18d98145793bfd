# eq. A.13 for d = 1: S_l is a product of l standard normal numbers, and log S_l^2 has the mean l E log w^2
import numpy as np
from scipy.special import digamma

w = np.random.default_rng(0).standard_normal((2000, 400))  # 2000 products of 400
rate = np.log(w**2).sum(axis=1).mean() / 400
print("(1/l) log sigma^2 =", rate, "printed:", (np.log(2) + digamma(0.5)) / 2, "without 1/2:", np.log(2) + digamma(0.5))
assert abs(rate - (np.log(2) + digamma(0.5))) < 0.02
assert rate < 0.9 * (np.log(2) + digamma(0.5)) / 2
