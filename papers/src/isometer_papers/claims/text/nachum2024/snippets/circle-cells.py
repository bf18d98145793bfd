# Example of Section I: w and -w lie in different cells, so n = 5 points on the circle have 10 cells of volume 1/10
import numpy as np

n = 5
angle = 2 * np.pi * np.arange(1, n + 1) / n
w = np.linspace(0, 2 * np.pi, 100_000, endpoint=False) + 1e-7
cells, counts = np.unique(np.cos(w[:, None] - angle) > 0, axis=0, return_counts=True)
print("cells:", len(cells), "(printed:", n, "); smallest volume:", counts.min() / len(w), "(printed:", 1 / n, ")")
assert len(cells) == 2 * n
assert abs(counts.min() / len(w) - 1 / (2 * n)) < 1e-4
