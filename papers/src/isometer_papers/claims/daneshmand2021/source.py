"""Two papers print nearly the same statements: what a claim is called in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partialmethod
from typing import Unpack

from isometer_papers.claims._claim import Claim, Generator, Kind
from isometer_papers.claims._statements import ClaimSettings, Comparison, stated


@dataclass(frozen=True)
class Source:
    """A paper's IDs of the statements that both papers have.

    Args:
        paper: its number.
        names: from the key of a statement to its ID; what is not there is not in the paper.
    """

    paper: str
    names: Mapping[str, str]

    def _stated(
        self,
        kind: Kind,
        name: str,
        compared: Comparison,
        generators: Mapping[str, Generator],
        **settings: Unpack[ClaimSettings],
    ) -> tuple[Claim, ...]:
        """The claim of that statement in this paper, or nothing.

        Args:
            kind: see `Claim`.
            name: key of the statement, with `:part` and `#corrected` as an ID has them.
            compared: both sides.
            generators: see `Claim`.
            settings: further arguments of `Claim`.
        """
        key = name.partition("#")[0].partition(":")[0]
        if key not in self.names:
            return ()
        return (stated(kind, self.identifier(name), compared, generators, **settings),)

    deterministic = partialmethod(_stated, "deterministic")
    expectation = partialmethod(_stated, "expectation")
    probability = partialmethod(_stated, "probability")
    asymptotic = partialmethod(_stated, "asymptotic")
    empirical = partialmethod(_stated, "empirical")

    def identifier(self, name: str) -> str:
        """The ID that `key`, `key:part` or either with `#corrected` has here."""
        key = name.partition("#")[0].partition(":")[0]
        return self.names[key] + name[len(key) :]


PAPER = Source(
    "003",
    {
        "bn": "003/def-bn",
        "frobenius": "003/eq-10",
        "all-layers": "003/eq-10",
        "gap-lyapunov": "003/lem-4",
        "inverse": "003/claim-full-inverse",
        "orthogonal-weights": "003/claim-orthogonal-weights",
        "theorem": "003/thm-1",
        "step": "003/appB-induction",
        "induction": "003/appB-induction",
        "intro": "003/claim-intro-rates",
        "corollary": "003/cor-3",
        "table": "003/table-1",
        "drift": "003/thm-5",
        "drift-gap": "003/eq-14",
        "average": "003/appB1-average",
        "reduction": "003/eq-12",
        "concentration": "003/lem-6",
        "smallest": "003/lem-7",
        "contraction": "003/lem-8",
        "shares": "003/p-map",
        "ratio": "003/lem-9",
        "two-level": "003/eq-16",
        "convex": "003/lem-10",
        "gaussian": "003/lem-2",
        "algorithm": "003/alg-iter-mlp",
        "iterative": "003/appE",
        "vanilla": "003/claim-vanilla-rank1",
        "cosines": "003/fig-1",
        "depth-figure": "003/fig-2a",
        "width-figure": "003/fig-2b",
        "independence": "003/claim-rank-preserved",
        "exponential": "003/claim-exp-depth",
        "width-claim": "003/claim-width",
        "slowdown": "003/fig-3a",
        "convolution-figure": "003/fig-7",
    },
)
