# Appendix B: y_1 = 1 and y_2 = 0 exclude each other (one neuron has rank one), yet both have positive probability
import numpy as np

rng, steps = np.random.default_rng(0), []
for _ in range(1500):  # two orthogonal samples
    H = np.maximum(rng.standard_normal((30, 2)), 0)
    steps.append([next(r for r in range(1, 31) if np.linalg.matrix_rank(H[:r, :t]) == t) for t in (1, 2)])
first, second = np.array(steps)[:, 0], np.diff(np.array(steps), axis=1)[:, 0]
joint, product = np.mean((first == 1) & (second == 0)), np.mean(first == 1) * np.mean(second == 0)
print("P(y_1 = 1, y_2 = 0):", joint, "P(y_1 = 1) P(y_2 = 0):", product)
assert joint == 0
assert product > 0.1
