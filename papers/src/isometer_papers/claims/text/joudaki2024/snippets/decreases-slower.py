# after eq. A.14: for weights N(0, 1/d), d = 2, both singular values of the product fall, and the first falls more slowly
import numpy as np

rng, product, log = np.random.default_rng(1), np.eye(2), 0.0
for _layer in range(60):
    product = rng.standard_normal((2, 2)) / np.sqrt(2) @ product
sigma = np.linalg.svd(product, compute_uv=False)
print("log sigma after 60 layers:", np.log(sigma))
assert np.log(sigma).max() < -5
assert np.log(sigma[0]) > np.log(sigma[1]) + 10
