# eq. B.42 for d = 100 rows of one number each: the sum of squares tells N(0, 1.1) from N(0, 1) better than one row does
from scipy.stats import chi2

d, g = 100, 1.1
level = 105.0
tv = chi2.cdf(level, d) - chi2.cdf(level / g, d)  # a lower bound
print("tv of 100 rows is at least", tv, "; bound for one row:", 1.5 * (g - 1))
assert tv > 1.5 * (g - 1)
