"""Two papers print nearly the same statements: what a claim is called in each, and where it stands there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isometer_papers.claims._claim import Claim, Kind, Relation


@dataclass(frozen=True)
class Source:
    """A paper's IDs and places of the statements that both papers have.

    Args:
        names: from the key of a statement to its ID and its place; what is not there is not in the paper.
        paper: its number.
    """

    paper: str
    names: Mapping[str, tuple[str, str]]

    def claims(
        self,
        key: str,
        kind: Kind,
        statement: str,
        relation: Relation,
        bound: Any,
        generators: Any,
        *,
        part: str = "",
        at: str = "",
        fails: bool | str = False,
        correction: bool = False,
        **rest: Any,
    ) -> tuple[Claim, ...]:
        """The claim of that statement in this paper, or nothing.

        Args:
            key: of the statement.
            kind: see `Claim`.
            statement: see `Claim`.
            relation: see `Claim`.
            bound: see `Claim`.
            generators: see `Claim`.
            part: of the ID, after a colon.
            at: where, after the place of the statement.
            fails: there is a correction beside it; a text names the part whose correction it is.
            correction: it is one.
            rest: see `Claim`.
        """
        if key not in self.names:
            return ()
        base, place = self.names[key]
        name = f"{base}:{part}" if part else base
        if fails:
            rest["corrected"] = f"{name if fails is True else self.identifier(fails)}#corrected"
        identifier = f"{name}#corrected" if correction else name
        where = f"{place}, {at}" if at else place
        return (Claim(identifier, where, kind, statement, relation, bound, generators, **rest),)

    def identifier(self, name: str) -> str:
        """The ID that `key` or `key:part` has here."""
        key, _, part = name.partition(":")
        return self.names[key][0] + (f":{part}" if part else "")


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
