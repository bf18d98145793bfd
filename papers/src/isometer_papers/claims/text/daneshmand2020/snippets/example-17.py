# Example 17: lambda_1 = d^beta, the others d^beta/log d as far as the trace d goes: alpha tends to 1 (by Prop. 13)
from mpmath import log, mpf

for d in (mpf(2) ** 50, mpf(2) ** 200, mpf(2) ** 800):
    first = d ** mpf("0.5")
    small = first / log(d)
    many = (d - first) / small
    alpha = (first**2 + many * small**2) ** 2 / (d * (first**3 + many * small**3))
    print("log d =", log(d), "lambda_2/lambda_1 =", small / first, "alpha =", alpha)
assert alpha > 0.99
