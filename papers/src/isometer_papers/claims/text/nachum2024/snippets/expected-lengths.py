# Theorem 14, items 1 and 2 without the word invariant: E |x_1| is below 1 and E |nu| below 1/(n-1); the squares fit
import numpy as np

n, d, X = 3, 2, np.array([[4.0, 0.05, -0.05]])
sigma = np.sqrt(2 * n**2 / ((n - 1) ** 2 * 4.0**2) / d)  # R = 4
W = sigma * np.random.default_rng(0).standard_normal((200_000, d))
odd, nu = (np.linalg.norm(np.maximum(W * (v - X.mean()), 0), axis=1) for v in (4.0, 0.0))
print("E |x_1|:", odd.mean(), "E |nu|:", nu.mean(), "E |x_1|^2:", (odd**2).mean(), "E |nu|^2:", (nu**2).mean())
assert odd.mean() < 0.73
assert nu.mean() < 0.37
assert np.allclose([(odd**2).mean(), (nu**2).mean()], [1, 1 / 4], rtol=0.02)
