"""What the statements shared with 003 are called in the thesis."""

from __future__ import annotations

from isometer_papers.claims.daneshmand2021.source import Source

THESIS = Source(
    "001",
    {
        "bn": "001/op-bn-nomean",
        "frobenius": "001/eq-A.4",
        "all-layers": "001/rec-2.1",
        "gap-lyapunov": "001/lem-A.1",
        "inverse": "001/claim-2.whiten",
        "orthogonal-weights": "001/claim-2.orthlinear",
        "theorem": "001/thm-2.1",
        "step": "001/eq-A.6",
        "induction": "001/eq-A.6",
        "intro": "001/claim-2.abstract",
        "corollary": "001/cor-2.3",
        "table": "001/tab-2.1",
        "drift": "001/thm-A.2",
        "drift-lyapunov": "001/eq-A.9",
        "average": "001/claim-A.stab",
        "reduction": "001/eq-A.7",
        "concentration": "001/lem-A.3",
        "smallest": "001/lem-A.4",
        "contraction": "001/lem-A.5",
        "shares": "001/eq-A.10",
        "ratio": "001/lem-A.6",
        "two-level": "001/eq-A.11",
        "convex": "001/lem-A.7",
        "gaussian": "001/lem-2.2",
        "algorithm": "001/alg-2.6",
        "iterative": "001/claim-A.4",
        "vanilla": "001/claim-2.vanillarank",
        "cosines": "001/fig-2.1",
        "depth-figure": "001/fig-2.2a",
        "width-figure": "001/fig-2.2b",
        "independence": "001/ass-2.A1",
        "slowdown": "001/fig-2.4a",
    },
)
