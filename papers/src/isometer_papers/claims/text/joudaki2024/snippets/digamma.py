# Proof of Lemma A.8: the digamma function increases
import numpy as np
from scipy.special import digamma

x = np.array([0.5, 1.0, 2.0, 8.0])
print("Psi at", x, "is", digamma(x))
assert np.all(np.diff(digamma(x)) > 0)
