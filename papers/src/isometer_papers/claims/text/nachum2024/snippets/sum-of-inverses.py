# eq. 27: at t = n it asks for the first n + 1 of n samples; gamma of points of the circle by the angles of their normals
import numpy as np

angles = np.array([0.2, 0.9, 1.7, 2.6])  # n = 4 samples
for t in range(1, 5):
    cuts = np.sort(np.r_[angles[:t], angles[:t] + np.pi])
    gamma = np.diff(np.r_[cuts, cuts[0] + 2 * np.pi]).min() / (2 * np.pi)
    print("t =", t, "1/gamma(X^(t)) =", 1 / gamma, "columns that X^(t+1) needs:", t + 1, "of", len(angles))
assert max(t + 1 for t in range(1, 5)) > len(angles)
