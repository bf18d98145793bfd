# before Definition 8: a batch of one sample is one cluster in every layer
import numpy as np

rows = np.array([[5.0]])
for _ in range(3):
    centred = rows - rows.mean(axis=1, keepdims=True)
    rows = np.maximum(np.concatenate([centred, -centred]), 0)
print("numbers of clusters:", {len(set(row)) for row in rows.tolist()})
assert {len(set(row)) for row in rows.tolist()} == {1}
