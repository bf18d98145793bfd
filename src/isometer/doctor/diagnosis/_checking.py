"""All checks of one case, and what they are going to ask of redraws."""

from __future__ import annotations

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.doctor.diagnosis._redraws import Examine, Redraws, Statistic, reads_gradients
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.diagnosis.checks import Case


def examined_case(view: View, examine: Examine, *, number: int, seed: int) -> Case:
    """A case with everything that the checks find.

    Args:
        view: the network at hand.
        examine: examines a redrawn network, as for `Redraws`.
        number: of redraws.
        seed: seed of the redraws.
    """
    redraws = Redraws(examine, view, number=number, seed=seed, gradients_too=lambda: _asks_for_gradients(view))
    case = Case(view, redraws)
    _check(case)
    return case


def case_beside(view: View, other: Case) -> Case:
    """The same checks of another view of the same network, against the same redraws."""
    case = Case(view, other.redraws)
    _check(case)
    return case


def _check(case: Case) -> None:
    for condition in sorted(CONDITIONS.values(), key=lambda one: one.order):  # later checks read what was found before
        case.found.extend(condition.found_in(case))


class _Rehearsal(Redraws):
    """No redraws: every number is taken to be beyond chance, so that checks ask for all that they might."""

    gradients = False

    def p_value(self, value: float, neutral: float, statistic: Statistic) -> float:
        self.gradients = self.gradients or reads_gradients(statistic, self._own)
        return 0.0


def _asks_for_gradients(view: View) -> bool:
    """Whether a check would compare gradients with those of redraws."""
    rehearsal = _Rehearsal(lambda prepare, gradients: view.examination, view)
    try:
        _check(Case(view, rehearsal))
    except Exception:
        return True  # of a check of the user's own
    return rehearsal.gradients
