# proof of Lemma 23: f(r) = 1/4 + r/2 + r²/4 on a kernel matrix; the sum from i = 1 leaves out 1/4 in every entry
import numpy as np

a, K = [0.25, 0.5, 0.25], np.array([[1.0, 0.5], [0.5, 1.0]])
f = a[0] + a[1] * K + a[2] * K**2
printed = sum(a[i] * K**i for i in (1, 2))
print("f[K] =", f.tolist(), "printed:", printed.tolist())
assert np.allclose(f - printed, 0.25)
