# §3.2: scaled representations of a vanilla linear network come close to rank one, but do not converge to a matrix
import numpy as np

rng, H, moves = np.random.default_rng(0), np.eye(8)[:, :4], []
for _ in range(300):
    before = H
    H = rng.standard_normal((8, 8)) @ H
    H = H / np.linalg.norm(H)
    moves.append(min(np.linalg.norm(H - before), np.linalg.norm(H + before)))
print("second singular value", np.linalg.svd(H)[1][1], "; mean step over the last 50 layers", np.mean(moves[-50:]))
assert np.linalg.svd(H)[1][1] < 1e-6 and np.mean(moves[-50:]) > 0.8
