"""The tree model of recentring followed by ReLU: one input feature, weights `[I; −I]`, two child rows for every row.

A batch of n numbers becomes `2^t` rows after t layers, but only n of them are interesting. Rows stay monotone in the
sorted input, entries merge only at zero, and a row without an entry at its mean has children with two clusters more
than it had itself. So at most n − 2 rows ever have three clusters or more. Those are kept one by one, in exact integer
arithmetic, since the order of an entry and the mean decides what merges. A row with two clusters is a split of the
sorted batch, a side and a height, and all rows of one split are summed up in two numbers:
`lo' = ((n − m)/n)² (lo + hi)`, `hi' = (m/n)² (lo + hi)`, the sums of squared heights of the rows whose first m, or last
n − m, samples are positive. Every Gram entry is then a sum of non-negative numbers, precise in relative terms at any
depth, since each split carries its own binary exponent.
"""

from isometer_papers.simulate.tree.brute_force import brute_force_tree, exact_tree_grams
from isometer_papers.simulate.tree.evolution import TreeTrajectory, evolve_tree
from isometer_papers.simulate.tree.transformations import (
    cluster_values,
    negative_transformation,
    positive_transformation,
    two_cluster_energy,
    two_cluster_row,
)

__all__ = [
    "TreeTrajectory",
    "brute_force_tree",
    "cluster_values",
    "evolve_tree",
    "exact_tree_grams",
    "negative_transformation",
    "positive_transformation",
    "two_cluster_energy",
    "two_cluster_row",
]
