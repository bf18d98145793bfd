# after Theorem 16: ‖v*‖² = n/√(log n) is o(n), and the bound (log n/n)‖v*‖² = √(log n) grows
import math

bound = {n: math.log(n) / n * (n / math.sqrt(math.log(n))) for n in (10**2, 10**6, 10**12)}
print("‖v*‖²/n:", [1 / math.sqrt(math.log(n)) for n in bound], "; the bound:", list(bound.values()))
assert bound[10**12] > bound[10**6] > bound[10**2]
