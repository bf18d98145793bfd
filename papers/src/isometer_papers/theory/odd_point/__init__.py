"""Recentring and ReLU: the layer, the chain and the tree in which one point leaves the cluster (000)."""
