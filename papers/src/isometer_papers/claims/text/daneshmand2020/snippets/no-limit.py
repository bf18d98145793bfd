# after Lemma 4: B_k/|B_k| comes close to rank one, and goes on turning: it has no limit
import numpy as np

rng, B, moves = np.random.default_rng(0), np.eye(8), []
for _ in range(2000):
    old, B = B, B + 0.5 * rng.uniform(-(3**0.5), 3**0.5, (8, 8)) @ B
    B /= np.linalg.norm(B)
    moves.append(min(np.linalg.norm(B - old), np.linalg.norm(B + old)))
s = np.linalg.svd(B, compute_uv=False)
print("second singular value over the first:", s[1] / s[0], "mean step at layers 1901 to 2000:", np.mean(moves[-100:]))
assert s[1] < 1e-6 * s[0] and np.mean(moves[-100:]) > 0.3
