# eq. 46 to 58: with the zero cluster first, (1, n-1) mixes rows in which x_1 is apart with rows in which x_n is
import numpy as np

rows = np.array([[1.0, 0, 0, 0, 0]])  # x_1 is apart
for layer in range(1, 14):
    centred = rows - rows.mean(axis=1, keepdims=True)
    rows = np.maximum(np.concatenate([centred, -centred]), 0)
    if layer == 1:
        one, many = ((rows[(rows == 0).sum(axis=1) == k] ** 2).max(axis=1).sum() for k in (1, 4))
true, said = (rows[:, 1] ** 2).sum() / (rows[:, 4] ** 2).sum(), (1 + one / many) / (16 + one / many)
print("|x_2|^2/|x_5|^2 =", true, "and eq. 50 has", said)
assert true > 0.9 and said < 0.07
