# §C.5: rates that are each at most beta do not have a bounded sum; those of alpha_l = l^(-k/c_2), k > 1, do
import numpy as np

beta, depths = 0.1, (100, 1000, 10_000)
level = [np.full(depth, beta).sum() for depth in depths]
falling = [(beta * np.arange(1, depth + 1) ** -1.5).sum() for depth in depths]
print("sums of the rates:", level, "and with k = 1.5:", falling)
assert max(level) > 50 * min(level)
assert max(falling) < 0.3
