# # Read a theorem's verdict
#
# The companion ships a ledger: every checkable statement of five papers, tested by a program. This tutorial reads one
# entry and checks it again.
#
# ## Look it up
#
# Theorem 5.11 of Joudaki 2024 (number 001) says how fast the cosine of two inputs converges with depth, in four cases.
# The first is about activations with κ(0) = 0, such as tanh.

from isometer_papers.claims import check, find, ledger

verdicts = {row.id: row for row in ledger("001")}
printed = verdicts["001/thm-5.11:case-1"]
print(printed.reading)
print(printed.verdict, "·", printed.certified_by)
# → κ(0) = 0 ⇒ Ψ(ρ_ℓ) ≤ Ψ(ρ₀) (1/κ′(1))^ℓ
# → refuted · mpmath, 50 digits; second formula (a grid of Gauss–Hermite nodes instead of closed forms)

# *Refuted* means that the statement fails in a concrete case that anyone can recompute. The ledger stores that case.

print(printed.counterexample)
# → {'instance': {'phi': 'sin', 'rho': 0.5, 'depth': 1}, 'value': 0.7966..., 'bound': 0.7615...}

# For the activation sin, two inputs of cosine 0.5, after one layer: the left side is 0.797, and the bound says at most
# 0.762. Four lines repeat the calculation without the ledger:

from isometer import kernel_map  # noqa: E402

kernel = kernel_map("sin")
rho = kernel.iterate(0.5, 1).cosine[-1]
left, right = abs(rho) / (1 - abs(rho)), 0.5 / 0.5 / kernel.slope(1.0)
print(f"{left:.4f} ≤ {right:.4f} is {left <= right}")
# → 0.7967 ≤ 0.7616 is False
assert abs(left - printed.counterexample["value"]) < 1e-9

# ## What is true instead
#
# A refuted statement names a corrected one, which has its own verdict.

corrected = verdicts[printed.corrected]
print(corrected.reading)
print(corrected.verdict, "·", sum(corrected.instances.values()) > 1000)
# → κ(0) = 0 ⇒ Ψ(ρ_ℓ) ≤ Ψ(ρ₀) (1/(2 − κ′(0)))^ℓ
# → holds · True

# *Holds* is weaker than *proved*: more than a thousand cases, among them a search for the worst, did not violate it.
# `margin` says how near they came: 0 where the bound is attained, so that no smaller bound could hold.

print(f"margin {corrected.margin:.0e}" if corrected.margin > 1e-6 else "the bound is attained")
# → the bound is attained

# ## Check it again
#
# Nothing in the ledger is written by hand. `check` runs the test, here with fewer cases than the shipped run had.

again = {claim.id: check(claim) for claim in find("001/thm-5.11:case-1")}
print({name: result.verdict for name, result in again.items()})
# → {'001/thm-5.11:case-1': 'refuted'}
assert again["001/thm-5.11:case-1"].verdict == printed.verdict

# ## The other verdicts
#
# *Vacuous*: the hypotheses are never met, or the bound is nowhere better than what is known anyway. *Inconclusive*:
# the test did not have the power to decide. [How claims are checked](../claims.md) has the exact rules, and [the
# tables](../ledger/index.md) all verdicts. On the command line: `isometer claims list --verdict refuted`, `isometer
# claims show 001/thm-5.11`.
