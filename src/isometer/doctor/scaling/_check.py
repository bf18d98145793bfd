"""Measure a model at several widths and depths, compare with theory, and try whether the best rate transfers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from isometer.doctor.scaling._code import code_of
from isometer.doctor.scaling._corrected import CannotScale, Corrections
from isometer.doctor.scaling._fitting import Exponent, fitted
from isometer.doctor.scaling._measuring import Record
from isometer.doctor.scaling._result import ScalingCheck
from isometer.doctor.scaling._rules import optimizer_kind, parametrisation
from isometer.doctor.scaling._sizes import Factory, Size, build, sizes_of, taken
from isometer.doctor.scaling._trainings import Trainings
from isometer.doctor.scaling._transfer import FACTORS, RateSweep, sweep, swept_sizes
from isometer.doctor.scaling._verdicts import opinion
from isometer.errors import IsometerError

_SKIP = 0.3  # cosine of a block's output with its input from which on it has a skip connection
_SWEEP_SEEDS = 2


def scaling_check(
    factory: Factory,
    widths: Sequence[int] | None = None,
    depths: Sequence[int] | None = None,
    *,
    batch: Any = None,
    target: Any = None,
    loss: Callable[..., torch.Tensor] | None = None,
    optimizer: Any = "adam",
    lr: float | None = None,
    steps: int = 5,
    aim: str | None = None,
    metrics: Sequence[str] = (),
    rates: Sequence[float] | None = None,
    sweep_steps: int = 40,
    seeds: Sequence[int] = (0, 1, 2),
    told: Callable[[str], None] | None = None,
) -> ScalingCheck:
    """Train a model at several widths and depths: what depends on the size, and does the learning rate transfer?

    In a parametrisation that transfers, activations, their changes in every step and the outputs keep their size as
    width and depth grow; a learning rate tuned on a small model is then right for a large one. Sizes are measured as in
    the coordinate check of muP (Yang et al. 2022), by parameter group, over widths at the smallest depth and over
    depths at the middle width. Each exponent stands beside those of theory.

    Args:
        factory: makes the model, called with `width` and `depth`; generators are seeded before each call. It returns a
            model, or a tuple of a model with an optimizer or parameter groups, a batch and a target.
        widths: 64, 128 and 256 if the factory takes `width`; an empty list leaves the width alone.
        depths: 2, 4 and 8 if the factory takes `depth`; an empty list leaves the depth alone.
        batch: inputs, `(inputs, target)` or an iterable of those; made for the model by default.
        target: targets, if `batch` holds inputs only.
        loss: a function of output and target; cross-entropy or mean squared error by default.
        optimizer: a name such as `adamw`, a class of torch, or a function that makes one from parameters.
        lr: your rate at the smallest size; by default the optimizer's own.
        steps: optimizer steps, each measured, at 1/64 of the rate: at the full rate wide models overshoot, and their
            exponents say nothing about the parametrisation. 0 measures initial models alone.
        aim: the parametrisation to correct towards: `standard`, `mup`, `depth-mup` or `completep`. CompleteP by
            default; muP where only the width is varied, depth-muP where the model's branches already follow it.
        metrics: further measurements of `isometer.probe` to fit exponents to, at every site.
        rates: rates of the sweep, at the smallest size; seven around `lr` by default. An empty list leaves the sweep
            out.
        sweep_steps: steps of each training of the sweep.
        seeds: seeds of the weights; the sweep uses the first two.
        told: called with a line of text on progress.

    Returns:
        A `ScalingCheck`.

    Raises:
        IsometerError: there are fewer than two sizes, the factory does not take them, or the models do not take the
            batch.

    Example:
        >>> from torch import nn
        >>> def make(width: int) -> nn.Module:
        ...     hidden = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        ...     return nn.Sequential(nn.Linear(8, width), nn.Tanh(), hidden, nn.Linear(width, 1))
        >>> check = scaling_check(make, [32, 64, 128], seeds=[0], steps=2, rates=[])
        >>> check.exponent("width", "update", "hidden").nearest, check.aim, check.resembles
        (1.0, 'mup', 'standard')
    """
    over_widths, over_depths = sizes_of(*taken(factory, widths, depths))
    _check_numbers(steps, sweep_steps, seeds, rates)
    if aim is not None:
        parametrisation(aim)
    say = told or (lambda text: None)
    work = Trainings(factory, batch, target, loss, optimizer, lr, other_width=_other(over_widths, over_depths))
    if over_depths:
        work.find_repeats(over_depths[0], over_depths[-1])
    base = swept_sizes(over_widths, over_depths)[0]
    choice = work.choice(build(factory, base, 0))
    kind = optimizer_kind(choice.name)
    records = _measured(work, [*over_widths, *over_depths], seeds, steps, metrics, say)
    exponents = _exponents(over_widths, over_depths, records)
    residual = _residual(records, over_depths)
    found = opinion(exponents, aim, kind, residual)
    corrections = Corrections(found, base, kind)
    sweeps: list[RateSweep | None] = [None, None]
    if steps and (rates is None or len(rates)):
        sweeps = _sweeps(work, swept_sizes(over_widths, over_depths), rates, sweep_steps, seeds, corrections, say)
    names = _names(work, [*over_widths[-1:], *over_depths[-1:]])
    return ScalingCheck(
        over_widths=tuple(over_widths),
        over_depths=tuple(over_depths),
        steps=steps,
        optimizer=choice.name,
        kind=kind,
        rate=choice.rate or choice.middle,
        share=work.share(base),
        residual=residual,
        exponents=tuple(exponents),
        opinion=found,
        records=records,
        code=code_of(found, base, names, kind),
        sweep=sweeps[0],
        corrected_sweep=sweeps[1],
    )


def _check_numbers(steps: int, sweep_steps: int, seeds: Sequence[int], rates: Sequence[float] | None) -> None:
    if steps < 0:
        raise IsometerError(f"steps is {steps}; expected 0 or more — pass steps=5")
    if sweep_steps < 4:
        raise IsometerError(f"sweep_steps is {sweep_steps}; expected at least 4 — pass sweep_steps=40")
    if not len(seeds):
        raise IsometerError("seeds are empty; expected at least one — pass seeds=[0, 1, 2]")
    if rates is None or not len(rates):
        return
    if any(not 0 < one < math.inf for one in rates) or len(set(rates)) < 3:
        raise IsometerError(
            f"rates are {list(rates)}; expected at least three different positive numbers — pass rates=[1e-4, 1e-3, "
            "1e-2], or [] for no sweep"
        )


def _other(over_widths: Sequence[Size], over_depths: Sequence[Size]) -> Callable[[int], int] | None:
    """Another width than the one given: the models of both tell which axes grow."""
    known = [one.width for one in over_widths if one.width is not None]
    if not known and (not over_depths or over_depths[0].width is None):
        return None
    return lambda width: next((one for one in known if one != width), 2 * width)


def _measured(
    work: Trainings,
    sizes: Sequence[Size],
    seeds: Sequence[int],
    steps: int,
    metrics: Sequence[str],
    say: Callable[[str], None],
) -> dict[Size, tuple[Record, ...]]:
    found: dict[Size, tuple[Record, ...]] = {}
    for size in dict.fromkeys(sizes):
        say(f"measuring {size.words()}")
        found[size] = tuple(work.measure(size, seed, steps, metrics) for seed in seeds)
    return found


def _exponents(
    over_widths: Sequence[Size], over_depths: Sequence[Size], records: dict[Size, tuple[Record, ...]]
) -> list[Exponent]:
    found: list[Exponent] = []
    for axis, series in (("width", over_widths), ("depth", over_depths)):
        if series:
            sizes = [one.width if axis == "width" else one.depth for one in series]
            fits = fitted(axis, [one for one in sizes if one is not None], [records[one] for one in series])
            # Outputs that grow with the width are hidden ones.
            grows = len({record.shape for one in series for record in records[one]}) > 1
            found += [one for one in fits if not (grows and one.quantity.startswith("logits"))]
    return found


def _residual(records: dict[Size, tuple[Record, ...]], over_depths: Sequence[Size]) -> bool | None:
    """Whether the repeated blocks have skips, by the deepest model; None where depth was not varied."""
    if not over_depths:
        return None
    return records[over_depths[-1]][0].skip > _SKIP


def _sweeps(
    work: Trainings,
    sizes: Sequence[Size],
    rates: Sequence[float] | None,
    steps: int,
    seeds: Sequence[int],
    corrections: Corrections,
    say: Callable[[str], None],
) -> list[RateSweep | None]:
    """The sweep of the models as they are, and with the corrections, which change nothing at the base size."""
    known: dict[tuple[Size, float, bool], list[float]] = {}
    rate = work.rate(sizes[0])

    def run(size: Size, factor: float, corrected: bool) -> list[float]:
        corrected = corrected and size != sizes[0]
        if (size, factor, corrected) not in known:
            say(f"sweeping rates at {size.words()}{' as corrected' if corrected else ''}: {rate * factor:.2g}")
            changes = corrections if corrected else None
            mine = seeds[:_SWEEP_SEEDS]
            known[size, factor, corrected] = [work.final(size, seed, factor, steps, changes) for seed in mine]
        return known[size, factor, corrected]

    factors = FACTORS if rates is None else [one / rate for one in rates]
    extend = rates is None
    own = sweep(sizes, factors, rate, steps, lambda size, factor: run(size, factor, False), extend=extend)
    if corrections.empty:
        return [own, None]
    try:
        after = sweep(sizes, factors, rate, steps, lambda size, factor: run(size, factor, True), extend=extend)
    except CannotScale:
        return [own, None]
    return [own, after]


def _names(work: Trainings, sizes: Sequence[Size]) -> dict[tuple[str, bool, str], list[str]]:
    """Names of parameters by group, whether they repeat, and label."""
    found: dict[tuple[str, bool, str], list[str]] = {}
    for size in sizes:
        for name, role in work.roles(size).of.items():
            mine = found.setdefault((role.group, role.repeated, role.label), [])
            if name not in mine:
                mine.append(name)
    return found
