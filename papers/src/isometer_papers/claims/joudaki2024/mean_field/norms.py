"""001, §5.6: Theorem 5.15."""

from __future__ import annotations

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._statements import at_most, below, deterministic
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    CENTRED,
    VISIBLE,
    affine_too,
    after,
    in_case,
    inner,
    kernel,
    nonlinear,
    post_norm,
    random,
    search,
)
from isometer_papers.claims.joudaki2024.mean_field.rates import by_centred_rate, potential, seen
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import normalized_rate_of, potential_bound, potential_of


def _by_normalized(i: Instance) -> Numeric:
    """κ(0) and κ′(1) of φ itself: of the centred kernel they give the same quotient."""
    return potential_bound(i["rho"], i["depth"], normalized_rate_of(kernel(i)))


def _printed_norm(part: str) -> Claim:
    centred = part != "post-ln"
    return deterministic(
        f"001/thm-5.15:{part}",
        at_most(potential, _by_normalized),
        CENTRED if centred else {"post": post_norm, "random": random(1)},
        hypotheses=lambda i: in_case(1)(i) and inner(i) and potential_of(after(i)) >= VISIBLE,
    )


CLAIMS = (
    _printed_norm("none"),
    _printed_norm("pre-rms"),
    _printed_norm("post-rms"),
    _printed_norm("pre-ln"),
    _printed_norm("post-ln"),
    deterministic(
        "001/thm-5.15:centred#corrected",
        at_most(potential, by_centred_rate),
        CENTRED,
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.15:post-ln#corrected",
        at_most(potential, by_centred_rate),
        {"post": post_norm, "random": random(1)},
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.15:strict",
        below(lambda i: normalized_rate_of(kernel(i)), 1),
        {"linear": affine_too, **ALL},
        hypotheses=lambda i: nonlinear(i) and i.get("phi") != "sign",
        search=search(4),
    ),
)
