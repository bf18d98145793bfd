"""001, §5.6: Theorem 5.15."""

from __future__ import annotations

from typing import Any

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
from isometer_papers.theory.duals.global_convergence import normalized_rate_of, potential_bound, potential_of


def _by_normalized(i: Instance) -> Any:
    """κ(0) and κ′(1) of φ itself: of the centred kernel they give the same quotient."""
    return potential_bound(i["rho"], i["depth"], normalized_rate_of(kernel(i)))


def _printed_norm(part: str, setting: str) -> Claim:
    centred = part != "post-ln"
    return deterministic(
        f"001/thm-5.15:{part}",
        "Theorem 5.15, eq. 5.14",
        f"{setting}: Ψ(ρ_ℓ) ≤ Ψ(ρ₀) α^ℓ, α = (κ(1) − κ(0))/κ′(1), at infinite width",
        at_most(potential, _by_normalized),
        CENTRED if centred else {"post": post_norm, "random": random(1)},
        hypotheses=lambda i: in_case(1)(i) and inner(i) and potential_of(after(i)) >= VISIBLE,
        corrected=f"001/thm-5.15:{'centred' if centred else 'post-ln'}#corrected",
        remark="the proof refers to Theorem 5.8, whose rate is another one"
        + ("" if centred else "; the kernel is (κ − κ(0))/(κ(1) − κ(0))"),
    )


CLAIMS = (
    _printed_norm("none", "no norm, E φ = 0, E φ² = 1"),
    _printed_norm("pre-rms", "RMS norm before φ, E φ = 0"),
    _printed_norm("post-rms", "RMS norm after φ, E φ = 0"),
    _printed_norm("pre-ln", "layer norm before φ, E φ = 0"),
    _printed_norm("post-ln", "layer norm after φ"),
    deterministic(
        "001/thm-5.15:centred#corrected",
        "Theorem 5.15, eq. 5.14",
        "no norm, RMS norm, or layer norm before φ, E φ = 0: Ψ(ρ_ℓ) ≤ Ψ(ρ₀) α^ℓ, α = κ(1)/(2κ(1) − κ′(0))",
        at_most(potential, by_centred_rate),
        CENTRED,
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.15:post-ln#corrected",
        "Theorem 5.15, eq. 5.14",
        "layer norm after φ: Ψ(ρ_ℓ) ≤ Ψ(ρ₀) α^ℓ, α = (κ(1) − κ(0))/(2(κ(1) − κ(0)) − κ′(0))",
        at_most(potential, by_centred_rate),
        {"post": post_norm, "random": random(1)},
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.15:strict",
        "Theorem 5.15",
        "α = (κ(1) − κ(0))/κ′(1) < 1 if φ is non-linear",
        below(lambda i: normalized_rate_of(kernel(i)), 1),
        {"linear": affine_too, **ALL},
        hypotheses=lambda i: nonlinear(i) and i.get("phi") != "sign",
        search=search(4),
    ),
)
