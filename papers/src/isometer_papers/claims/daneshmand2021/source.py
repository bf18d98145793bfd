"""Two papers print nearly the same statements: what a claim is called in each, and where it stands there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partialmethod
from typing import Unpack

from isometer_papers.claims._claim import Claim, Generator, Kind
from isometer_papers.claims._statements import ClaimSettings, Comparison, stated


@dataclass(frozen=True)
class Source:
    """A paper's IDs and places of the statements that both papers have.

    Args:
        names: from the key of a statement to its ID and its place; what is not there is not in the paper.
        paper: its number.
    """

    paper: str
    names: Mapping[str, tuple[str, str]]

    def _stated(
        self,
        kind: Kind,
        name: str,
        statement: str,
        compared: Comparison,
        generators: Mapping[str, Generator],
        *,
        at: str = "",
        fails: bool | str = False,
        **settings: Unpack[ClaimSettings],
    ) -> tuple[Claim, ...]:
        """The claim of that statement in this paper, or nothing.

        Args:
            kind: see `Claim`.
            name: key of the statement, with `:part` and `#corrected` as an ID has them.
            statement: see `Claim`.
            compared: both sides.
            generators: see `Claim`.
            at: where, after the place of the statement.
            fails: there is a correction beside it; a text names the part whose correction it is.
            settings: further arguments of `Claim`.
        """
        key = name.partition("#")[0].partition(":")[0]
        if key not in self.names:
            return ()
        place = self.names[key][1]
        if fails:
            settings["corrected"] = f"{self.identifier(name if fails is True else fails)}#corrected"
        where = f"{place}, {at}" if at else place
        return (stated(kind, self.identifier(name), where, statement, compared, generators, **settings),)

    deterministic = partialmethod(_stated, "deterministic")
    expectation = partialmethod(_stated, "expectation")
    probability = partialmethod(_stated, "probability")
    asymptotic = partialmethod(_stated, "asymptotic")
    empirical = partialmethod(_stated, "empirical")

    def identifier(self, name: str) -> str:
        """The ID that `key`, `key:part` or either with `#corrected` has here."""
        key = name.partition("#")[0].partition(":")[0]
        return self.names[key][0] + name[len(key) :]


PAPER = Source(
    "003",
    {
        "bn": ("003/def-bn", "eq. 1"),
        "frobenius": ("003/eq-10", "eq. 10"),
        "all-layers": ("003/eq-10", "§2.1"),
        "gap-lyapunov": ("003/lem-4", "Lemma 4"),
        "inverse": ("003/claim-full-inverse", "§3.2"),
        "orthogonal-weights": ("003/claim-orthogonal-weights", "§5.2"),
        "theorem": ("003/thm-1", "Theorem 1, eq. 3"),
        "step": ("003/appB-induction", "Appendix B"),
        "induction": ("003/appB-induction", "Appendix B"),
        "intro": ("003/claim-intro-rates", "§1"),
        "corollary": ("003/cor-3", "Corollary 3, eq. 5"),
        "table": ("003/table-1", "Table 1"),
        "drift": ("003/thm-5", "Theorem 5"),
        "drift-gap": ("003/eq-14", "eq. 14"),
        "average": ("003/appB1-average", "Appendix B.1"),
        "reduction": ("003/eq-12", "Appendix C.1–C.2"),
        "concentration": ("003/lem-6", "Lemma 6"),
        "smallest": ("003/lem-7", "Lemma 7"),
        "contraction": ("003/lem-8", "Lemma 8"),
        "shares": ("003/p-map", "eq. 13, 15"),
        "ratio": ("003/lem-9", "Lemma 9"),
        "two-level": ("003/eq-16", "eq. 16"),
        "convex": ("003/lem-10", "Lemma 10"),
        "gaussian": ("003/lem-2", "Lemma 2, eq. 4"),
        "algorithm": ("003/alg-iter-mlp", "§5.2, eq. 6"),
        "iterative": ("003/appE", "Appendix E, eq. 17–18"),
        "vanilla": ("003/claim-vanilla-rank1", "§3.2"),
        "cosines": ("003/fig-1", "Figure 1"),
        "depth-figure": ("003/fig-2a", "Figure 2, left; §3.3"),
        "width-figure": ("003/fig-2b", "Figure 2, right"),
        "independence": ("003/claim-rank-preserved", "§2.2, §3.2"),
        "exponential": ("003/claim-exp-depth", "§3.3"),
        "width-claim": ("003/claim-width", "§3.3"),
        "slowdown": ("003/fig-3a", "Figure 3a, §5.1"),
    },
)
