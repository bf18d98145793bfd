"""What the statements shared with 003 are called in the thesis, and where they stand."""

from __future__ import annotations

from isometer_papers.claims.daneshmand2021.source import Source

THESIS = Source(
    "001",
    {
        "bn": ("001/op-bn-nomean", "eq. 2.1"),
        "frobenius": ("001/eq-A.4", "eq. A.4"),
        "all-layers": ("001/rec-2.1", "§2.1.1"),
        "gap-lyapunov": ("001/lem-A.1", "Lemma A.1"),
        "inverse": ("001/claim-2.whiten", "§2.2.2"),
        "orthogonal-weights": ("001/claim-2.orthlinear", "§2.4.2"),
        "theorem": ("001/thm-2.1", "Theorem 2.1, eq. 2.3"),
        "step": ("001/eq-A.6", "eq. A.6"),
        "induction": ("001/eq-A.6", "after eq. A.6"),
        "intro": ("001/claim-2.abstract", "Chapter 2, introduction"),
        "corollary": ("001/cor-2.3", "Corollary 2.3, eq. 2.5"),
        "table": ("001/tab-2.1", "Table 2.1"),
        "drift": ("001/thm-A.2", "Theorem A.2"),
        "drift-lyapunov": ("001/eq-A.9", "eq. A.9"),
        "average": ("001/claim-A.stab", "A.2, stability without assumption"),
        "reduction": ("001/eq-A.7", "eq. A.7"),
        "concentration": ("001/lem-A.3", "Lemma A.3"),
        "smallest": ("001/lem-A.4", "Lemma A.4"),
        "contraction": ("001/lem-A.5", "Lemma A.5"),
        "shares": ("001/eq-A.10", "eq. A.8, A.10"),
        "ratio": ("001/lem-A.6", "Lemma A.6"),
        "two-level": ("001/eq-A.11", "eq. A.11"),
        "convex": ("001/lem-A.7", "Lemma A.7"),
        "gaussian": ("001/lem-2.2", "Lemma 2.2, eq. 2.4"),
        "algorithm": ("001/alg-2.6", "eq. 2.6"),
        "iterative": ("001/claim-A.4", "A.4, eq. A.19–A.20"),
        "vanilla": ("001/claim-2.vanillarank", "§2.2.2"),
        "cosines": ("001/fig-2.1", "Figure 2.1"),
        "depth-figure": ("001/fig-2.2a", "Figure 2.2a, §2.2.3"),
        "width-figure": ("001/fig-2.2b", "Figure 2.2b, §2.2.3"),
        "independence": ("001/ass-2.A1", "§2.1.2, §2.2.2"),
        "slowdown": ("001/fig-2.4a", "Figure 2.4a, §2.4.1"),
    },
)
