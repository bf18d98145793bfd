# Lemma 1: with batch norm of the hidden units only, the output v·σ(BN(w x))/√m still depends on c and s
import numpy as np

x, w, v = np.array([1.0, 2.0, 4.0]), np.array([1.0, -2.0]), np.array([1.0, 3.0])  # a batch of three, two hidden units
c, s = 1 / np.sqrt(2 * np.pi), np.sqrt(0.5 - 0.5 / np.pi)  # mean and deviation of ReLU
hidden = np.outer(x, w)
relu = np.maximum((hidden - hidden.mean(axis=0)) / hidden.std(axis=0), 0)
plain, normalised = relu @ v / np.sqrt(2), (relu - c) / s @ v / np.sqrt(2)
print("output with ReLU:", plain, "with normalised ReLU:", normalised)
assert abs(plain - normalised).min() > 0.1
