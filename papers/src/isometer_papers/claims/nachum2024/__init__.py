"""Paper 000, "Batch Normalization Decomposed", claim by claim."""

from __future__ import annotations

from isometer_papers.claims._claim import Claim, with_second
from isometer_papers.claims.nachum2024 import (
    figures,
    full_rank,
    invariant,
    layers,
    odd_point,
    rank,
    rank_steps,
    recentring,
    second,
    sentences,
    stability,
    tree,
    tree_angles,
    tree_clusters,
    tree_limits,
    tree_three,
    tree_two,
)

CLAIMS: tuple[Claim, ...] = with_second(
    (
        *layers.CLAIMS,
        *rank.CLAIMS,
        *full_rank.CLAIMS,
        *rank_steps.CLAIMS,
        *recentring.CLAIMS,
        *odd_point.CLAIMS,
        *tree.CLAIMS,
        *tree_clusters.CLAIMS,
        *tree_limits.CLAIMS,
        *tree_two.CLAIMS,
        *tree_three.CLAIMS,
        *tree_angles.CLAIMS,
        *invariant.CLAIMS,
        *stability.CLAIMS,
        *figures.CLAIMS,
        *sentences.CLAIMS,
    ),
    second.SECOND,
)
