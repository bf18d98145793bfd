"""What a scaling check found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer import _display
from isometer.doctor.scaling._fitting import Exponent
from isometer.doctor.scaling._measuring import Quantity, Record
from isometer.doctor.scaling._rules import parametrisation
from isometer.doctor.scaling._sizes import Size
from isometer.doctor.scaling._transfer import RateSweep
from isometer.doctor.scaling._verdicts import Opinion, ScalingVerdict, resembles
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from os import PathLike

    import xarray
    from matplotlib.figure import Figure

_WORDS = {
    "update": "the effect of {group} updates",
    "activation": "the output of {group} layers",
    "logits": "the initial output",
    "logits_change": "the change of the output",
    "branch": "what a block adds",
    "stream": "the stream",
    "stream_change": "the change of the stream",
}


@dataclass(frozen=True, eq=False, repr=False)
class ScalingCheck:
    """A model at several widths and depths: exponents beside those of theory, verdicts, corrections, a sweep of rates.

    Example:
        >>> from torch import nn
        >>> from isometer import scaling_check
        >>> def make(width: int) -> nn.Module:
        ...     return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
        >>> check = scaling_check(make, [32, 64, 128], optimizer="sgd", seeds=range(4), steps=1, rates=[])
        >>> check.scales, [one.group for one in check.opinion.corrections]
        (False, ['input', 'vector', 'output'])

    Attributes:
        over_widths: sizes of the series over widths, at the smallest depth.
        over_depths: sizes of the series over depths, at the middle width.
        steps: optimizer steps.
        optimizer: its name.
        kind: `adaptive` if its updates have the size of the rate, `gradient` if they have that of the gradient.
        rate: rate of the optimizer at the smallest size.
        share: share of that rate that the measured steps use, so that their changes are proportional to the rate.
        residual: whether the repeated blocks have skip connections; None where depth was not varied.
        exponents: exponents of all quantities, by name of parameters (`label`) and for whole groups (label `all`).
        opinion: verdicts and corrections, for one parametrisation.
        records: what was measured, by size and seed.
        code: the corrections as Python code; empty if there are none.
        sweep: losses by rate of the models as they are, None if it was left out.
        corrected_sweep: the same with the corrections, None where there is nothing to correct, or where they cannot be
            carried out from outside.
    """

    over_widths: tuple[Size, ...]
    over_depths: tuple[Size, ...]
    steps: int
    optimizer: str
    kind: str
    rate: float
    share: float
    residual: bool | None
    exponents: tuple[Exponent, ...]
    opinion: Opinion
    records: Mapping[Size, tuple[Record, ...]]
    code: str
    sweep: RateSweep | None = None
    corrected_sweep: RateSweep | None = None

    @property
    def aim(self) -> str:
        """The parametrisation that corrections lead to."""
        return self.opinion.aim

    @property
    def verdicts(self) -> tuple[ScalingVerdict, ...]:
        """One per parameter group, quantity and axis that theory says something about."""
        return self.opinion.verdicts

    @property
    def scales(self) -> bool | None:
        """Whether all exponents are those of the parametrisation that was aimed at; None if that is not clear."""
        if self.opinion.wrong:
            return False
        return None if self.opinion.unclear else True

    @property
    def resembles(self) -> str | None:
        """The parametrisation whose exponents are nearest to those measured."""
        return resembles(self.verdicts)

    @property
    def transfers(self) -> bool | None:
        """Whether the best rates of the sweep are within one step of the grid; None without a sweep."""
        return None if self.sweep is None else self.sweep.transfers

    def exponent(self, axis: str, quantity: str, group: str = "model", label: str = "all") -> Exponent:
        """One exponent.

        Args:
            axis: `width` or `depth`.
            quantity: such as `update`, `activation`, `logits_change`, or a metric that was requested.
            group: group of parameters; `model` for the output, `stream` for the residual stream, `site` for metrics.
            label: names of the parameters with `*` for numbers, the name of a site, or `all`. Of a group with
                parameters that repeat with the depth and others that do not, these come first.

        Raises:
            IsometerError: it was not measured.
        """
        mine = [e for e in self.exponents if (e.axis, e.quantity, e.group, e.label) == (axis, quantity, group, label)]
        if not mine:
            known = sorted({(e.quantity, e.group) for e in self.exponents if e.axis == axis})
            raise IsometerError(
                f"there is no exponent of {quantity!r} of {group!r} ({label}) in {axis}; expected one of "
                f"{', '.join(' of '.join(one) for one in known) or 'none'}"
            )
        return max(mine, key=lambda one: one.repeated)

    @property
    def conclusion(self) -> str:
        """One line for people."""
        near = "no known parametrisation" if self.resembles is None else parametrisation(self.resembles).name
        aim = parametrisation(self.aim).name
        wrong = sorted(self.opinion.wrong, key=lambda one: -abs(one.measured.value - (one.asked or 0.0)))
        unclear = len(self.opinion.unclear)
        if not wrong and unclear:
            text = (
                f"Unclear whether it scales as in {aim}: {unclear} exponents are uncertain; take more seeds or sizes."
            )
        elif not wrong:
            text = f"Scales as in {aim}: no exponent differs from theory."
        else:
            told = dict.fromkeys(_told(one) for one in wrong[:2])
            text = f"Resembles {near}: {' and '.join(told)}."
        return f"{text} {self._sweep_words()}".strip()

    def _sweep_words(self) -> str:
        if self.sweep is None:
            return ""
        if self.sweep.transfers:
            text = "The best rate transfers"
        else:
            far = max(self.sweep.steps_apart, key=abs)
            size = self.sweep.sizes[self.sweep.steps_apart.index(far)]
            text = f"The best rate moves by {abs(far)} grid steps at {size.words()}"
        if self.corrected_sweep is None:
            return f"{text}."
        after = self.corrected_sweep.transfers
        return f"{text}; corrected, it {'transfers' if after else 'still moves'}."

    def to_dataset(self) -> xarray.Dataset:
        """Everything that was measured: `measurement × size × seed × step`, nan where a run has no such number."""
        import xarray

        sizes = list(self.records)
        quantities = list(dict.fromkeys(q for rows in self.records.values() for one in rows for q in one.values))
        seeds = len(self.records[sizes[0]])
        values = np.full((len(quantities), len(sizes), seeds, self.steps + 1), math.nan)
        for i, quantity in enumerate(quantities):
            for j, size in enumerate(sizes):
                for k, record in enumerate(self.records[size]):
                    found = record.values.get(quantity, [])
                    first = self.steps + 1 - len(found) if _belongs_to_step(quantity) else 0
                    values[i, j, k, first : first + len(found)] = found
        return xarray.Dataset(
            {"value": (("measurement", "size", "seed", "step"), values)},
            coords={
                "quantity": ("measurement", [q.name for q in quantities]),
                "group": ("measurement", [q.role.group for q in quantities]),
                "label": ("measurement", [q.role.label for q in quantities]),
                "width": ("size", [math.nan if one.width is None else one.width for one in sizes]),
                "depth": ("size", [math.nan if one.depth is None else one.depth for one in sizes]),
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "conclusion": self.conclusion,
            "scales": self.scales,
            "transfers": self.transfers,
            "resembles": self.resembles,
            "aim": self.aim,
            "widths": [one.width for one in self.over_widths],
            "depths": [one.depth for one in self.over_depths],
            "steps": self.steps,
            "optimizer": self.optimizer,
            "rate": self.rate,
            "share": self.share,
            "residual": self.residual,
            "verdicts": [one.to_dict() for one in self.verdicts],
            "exponents": [one.to_dict() for one in self.exponents],
            "corrections": [one.to_dict() for one in self.opinion.corrections],
            "branch_depth": self.opinion.branch_depth,
            "output_width": self.opinion.output_width,
            "code": self.code,
            "sweep": None if self.sweep is None else self.sweep.to_dict(),
            "corrected_sweep": None if self.corrected_sweep is None else self.corrected_sweep.to_dict(),
            "series": [_curve(one, self) for one in self.verdicts],
        }

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """The picture: sizes over width and depth beside theory, and losses over rates; also written to `path`."""
        return _display.draw(self, path)

    def __repr__(self) -> str:
        return f"ScalingCheck({self.conclusion})"

    def _repr_html_(self) -> str:
        return _display.html(self)


def _belongs_to_step(quantity: Quantity) -> bool:
    return quantity.name == "gradient" or "update" in quantity.name or "change" in quantity.name


def _told(one: ScalingVerdict) -> str:
    words = _WORDS.get(one.measured.quantity, one.measured.quantity).format(group=one.measured.group)
    axis = one.measured.axis
    return f"{words} scales like {axis}^{one.measured.value:.2f} instead of {axis}^{one.asked or 0.0:g}"


def _curve(one: ScalingVerdict, check: ScalingCheck) -> dict[str, Any]:
    """Geometric means over seeds along the axis, for the picture."""
    from isometer.doctor.scaling._fitting import curve_of

    series = check.over_widths if one.measured.axis == "width" else check.over_depths
    sizes = [size.width if one.measured.axis == "width" else size.depth for size in series]
    values = curve_of(one.measured, [check.records[size] for size in series])
    return {
        "axis": one.measured.axis,
        "quantity": one.measured.quantity,
        "group": one.measured.group,
        "repeated": one.measured.repeated,
        "sizes": sizes,
        "values": values,
    }
