# d = 1: BN(x) = x/|x| does not change with x, eq. C.139, and its one eigenvalue is 1, Remark C.5
import numpy as np

d, x, step = 1, 2.0, 1e-3
jacobian = ((x + step) / abs(x + step) - x / abs(x)) / step
eigenvalues = np.array([(x / abs(x)) ** 2])
print(
    "norm of the Jacobian:", jacobian, "and 1/|x|:", 1 / x, "; sum of squares", (eigenvalues**2).sum(), "and d^2", d**2
)
assert jacobian**2 < 1 / x**2 and not (eigenvalues**2).sum() < d**2
