"""A yardstick: how much small generic learners, which share nothing with a model, make of the same batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.nn import functional

from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.doctor.probe._world import World
from isometer.doctor.stress._material import Material
from isometer.doctor.stress._objectives import _axis_of_log_probabilities
from isometer.doctor.stress._race import progress

Tensor = torch.Tensor
RATES = (3e-3, 2e-2)
"""Rates of Adam at which every learner is tried; they fall to a tenth towards the end."""
_KNOWN = 512  # samples that statistics are made from
_CLIPPED = 5.0  # deviations; what is farther away counts as that far
_TAIL = 0.01  # share of samples on each side that may be anything
_FLOOR = 0.1  # of the usual deviation along a channel, below which a place counts as constant
_SIDE, _LENGTH, _FEATURES, _VOCABULARY = 16, 128, 1024, 4096  # what inputs are reduced to
_FULL = 64  # rows and columns that are looked at before they are averaged
_HIDDEN = 128
_MOST_ANSWERS = 4096  # numbers per sample that a learner may be asked for
_SAME = 0.5  # share of targets that are inputs, from which on they are taken from there


@dataclass(frozen=True)
class Yardstick:
    """What the best of the learners made of the batches.

    Attributes:
        progress: share of the loss of the best constant that is gone at the end, nan where nothing can be said.
        learner: the best one, empty where there is none.
        losses: of every batch before it was learned from.
    """

    progress: float
    learner: str
    losses: tuple[float, ...]


class _Odd(Exception):
    """Inputs, targets or outputs that no learner takes."""


def yardstick(material: Material, output: Any, *, steps: int, seed: int) -> Yardstick:
    """Train small learners on the batches of a material, and report the best."""
    world = World()
    try:
        world.seed(seed)  # a loss may draw numbers
        torch.set_num_threads(1)
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            runs = _runs(material, output, steps, seed)
    except _Odd:
        return Yardstick(math.nan, "", ())
    finally:
        world.restore()
    found = [(progress(run.losses, "fresh batches", material.chance), run) for run in runs]
    best = max(found, key=lambda one: one[0])
    return Yardstick(best[0], best[1].name, tuple(best[1].losses))


# Inputs.


@dataclass
class View:
    """One batch as learners see it."""

    samples: int
    flat: Tensor | None = None
    line: Tensor | None = None  # (samples, channels, positions)
    grid: Tensor | None = None
    full: Tensor | None = None
    tokens: Tensor | None = None


def _sized(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Cropped, or filled with zeros, to a shape of all axes but the first."""
    if x.shape[1:] == tuple(shape):
        return x
    x = x[(slice(None), *(slice(size) for size in shape))]
    missing = [size - have for size, have in zip(shape, x.shape[1:], strict=True)]
    return functional.pad(x, [side for size in reversed(missing) for side in (0, size)])


class Standards:
    """Centre and deviation of every number of a sample, from most of the samples."""

    def __init__(self, x: Tensor, *, channels: bool) -> None:
        x = torch.where(x.isfinite(), x, math.nan)
        rows = x.flatten(1).T.contiguous() if x.dim() > 1 else x[None]
        count = rows.isfinite().sum(1, keepdim=True)
        ordered = rows.sort(dim=1).values  # nan last
        cut = (_TAIL * count).long()
        low = ordered.gather(1, cut)
        high = ordered.gather(1, (count - 1 - cut).clamp(min=0))
        rows = rows.clamp(low, high)
        centre = rows.nanmean(1)
        spread = (rows - centre[:, None]).square().nanmean(1).sqrt()
        spread = torch.where(spread > 1e-6 * centre.abs(), spread, 0.0)
        centre = centre.nan_to_num().reshape(x.shape[1:])
        spread = spread.nan_to_num().reshape(x.shape[1:])
        if channels:
            usual = spread.flatten(1)
            usual = torch.where(usual > 0, usual, math.nan).nanmedian(1).values.nan_to_num()
            spread = torch.maximum(spread, _FLOOR * usual.reshape(-1, *[1] * (spread.dim() - 1)))
        self.centre, self.factor = centre, torch.where(spread > 0, 1 / spread, 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        shape = x.shape[1:]
        centre, factor = (_sized(one[None], shape)[0] for one in (self.centre, self.factor))
        return ((x - centre) * factor).nan_to_num(0.0, 0.0, 0.0).clamp(-_CLIPPED, _CLIPPED).float()


def _arranged(x: Tensor, positions: int | None) -> Tensor:
    """Samples with features, with channels and positions, or with channels, rows and columns."""
    if x.dim() == 1:
        return x[:, None]
    if x.dim() == 3:
        first = positions == x.shape[1] if positions in x.shape[1:] else x.shape[1] >= x.shape[2]
        return x.transpose(1, 2) if first else x
    if x.dim() >= 4:
        x = x.flatten(1, -3) if x.dim() > 4 else x if x.shape[1] <= x.shape[3] else x.permute(0, 3, 1, 2)
        if min(x.shape[2:]) == 1:
            return x.flatten(2)
    return x


class Reader:
    """Makes views of inputs."""

    def __init__(self, batches: Sequence[Any], outputs: Sequence[Tensor], seed: int) -> None:
        found = list(tensors(batches[0]))
        sizes = [t.numel() if self._usable(t) else 0 for t in found]
        if not any(sizes):
            raise _Odd
        self.samples = found[sizes.index(max(sizes))].shape[0]
        usable = [p for p, t in enumerate(found) if sizes[p] and t.shape[0] == self.samples]
        self._tokens = self._token_place(batches, [p for p in usable if self._discrete(found[p])])
        numbers = [p for p in usable if p != self._tokens]
        floats = [p for p in numbers if found[p].is_floating_point() or not self._discrete(found[p])]
        self._main = max(floats, key=lambda p: sizes[p], default=None)
        if self._tokens is not None and self._main is not None and sizes[self._tokens] > sizes[self._main]:
            self._main = None  # floats beside tokens belong to the rest
        self._rest = [p for p in numbers if p != self._main]
        self._positions = next((t.shape[1] for t in outputs if t.dim() > 2), None)
        self._seed = seed
        whole = [list(tensors(batch)) for batch in batches]
        self.vocabulary = 0
        if self._tokens is not None:
            largest = max(int(parts[self._tokens].max()) for parts in whole)
            self.vocabulary = min(_VOCABULARY, max(1, largest + 1))
        self._standards: dict[int, Standards] = {}
        for place in [self._main, *self._rest]:
            if place is not None:
                parts = [self._numbers(batch, place) for batch in whole]
                joined = torch.cat([_sized(one, parts[0].shape[1:]) for one in parts])[:_KNOWN]
                self._standards[place] = Standards(joined, channels=joined.dim() > 2)
        self._shapes: dict[str, tuple[int, ...]] = {}

    @staticmethod
    def _usable(t: Tensor) -> bool:
        return t.dim() > 0 and t.numel() > 0 and not t.is_nested

    @staticmethod
    def _discrete(t: Tensor) -> bool:
        whole = not t.is_floating_point() and not t.is_complex() and t.dtype is not torch.bool
        return whole and t.dim() <= 2

    @staticmethod
    def _token_place(batches: Sequence[Any], places: list[int]) -> int | None:
        kinds = {p: max(len(list(tensors(batch))[p].unique()) for batch in batches[:4]) for p in places}
        return max(kinds, key=lambda p: kinds[p], default=None)

    def _numbers(self, parts: list[Tensor], place: int) -> Tensor:
        x = parts[place].detach()
        x = x.to_dense() if x.layout is not torch.strided else x
        x = torch.view_as_real(x).flatten(-2) if x.is_complex() else x
        x = x.cpu().double()
        x = _arranged(x, self._positions) if place == self._main else x.flatten(1) if x.dim() > 1 else x[:, None]
        if x.dim() == 4:
            x = x[:, :: -(-x.shape[1] // _FULL), :: -(-x.shape[2] // _FULL), :: -(-x.shape[3] // _FULL)]
        return x

    def __call__(self, inputs: Any) -> View:
        parts = list(tensors(inputs))
        flat: list[Tensor] = []
        view = View(0)
        if self._main is not None:
            x = self._standards[self._main](self._numbers(parts, self._main))
            view.samples = len(x)
            if x.dim() == 4:
                view.full = x
                sides = [min(_SIDE, side) for side in x.shape[2:]]
                view.grid = x if sides == list(x.shape[2:]) else functional.adaptive_avg_pool2d(x, sides)
                x = self._like("grid", view.grid)
            elif x.dim() == 3:
                view.line = x
                x = self._like("line", x)
                if x[0].numel() > _FEATURES and x.shape[2] > _LENGTH:
                    x = functional.adaptive_avg_pool1d(x, _LENGTH)
            flat.append(self._like("flat", x.flatten(1)))
        if self._tokens is not None:
            tokens = parts[self._tokens].detach().cpu().long()
            view.tokens = (tokens if tokens.dim() > 1 else tokens[:, None]) % self.vocabulary
            view.samples = len(view.tokens)
        for place in self._rest:
            x = self._standards[place](self._numbers(parts, place))
            flat.append(self._like(f"rest {place}", x))
        if flat:
            view.flat = self._sketched(torch.cat(flat, 1))
        return view

    def _like(self, name: str, x: Tensor) -> Tensor:
        return _sized(x, self._shapes.setdefault(name, tuple(x.shape[1:])))

    def _sketched(self, x: Tensor) -> Tensor:
        if x.shape[1] <= _FEATURES:
            return x
        generator = torch.Generator().manual_seed(self._seed)
        place = torch.randint(_FEATURES, (x.shape[1],), generator=generator)
        sign = 2.0 * torch.randint(2, (x.shape[1],), generator=generator) - 1
        return torch.zeros(len(x), _FEATURES).index_add_(1, place, x * sign)


# Answers.

Form = Literal["sample", "position", "channels first", "rows", "grid"]


@dataclass(eq=False)
class Answer:
    """An output that the loss reads, and how features become one like it."""

    like: Tensor
    form: Form
    size: int
    along: int | None
    offset: Tensor = field(default_factory=lambda: torch.zeros(()))
    scale: Tensor = field(default_factory=lambda: torch.ones(()))

    def of(self, found: Tensor) -> Tensor:
        """The output for numbers of the head: per sample, per position, or (samples, size, rows, columns)."""
        shape = self.like.shape
        if self.form == "sample":
            found = found.reshape(-1, *shape[1:])
        elif self.form == "position":
            found = found.reshape(*found.shape[:2], *shape[2:])
        elif self.form == "channels first":
            found = found.transpose(1, 2)
        elif self.form == "rows":
            found = found.reshape(-1, *shape[1:])
        else:
            sides = shape[2:]
            found = found if found.shape[2:] == sides else functional.interpolate(found, tuple(sides), mode="nearest")
        found = self.offset + self.scale * found
        return (found if self.along is None else found.log_softmax(self.along)).to(self.like)


def used_outputs(material: Material, output: Any) -> list[Tensor]:
    """The tensors of an output that the loss depends on."""
    found = dense(output)
    leaves = {id(t): t.detach().clone().requires_grad_() for t in found}
    value = material.loss(map_tensors(lambda t: leaves.get(id(t), t), output), material.batch(0)[1])
    slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return [t for t, slope in zip(found, slopes, strict=True) if slope is not None]


def _forms(like: Tensor, view: View) -> Iterator[tuple[Form, int]]:
    """Forms that an output may have, with the numbers to each place."""
    samples, shape = view.samples, like.shape
    length = view.tokens.shape[1] if view.tokens is not None else view.line.shape[2] if view.line is not None else 0
    if shape[0] == samples:
        if length and like.dim() > 2 and shape[1] == length:
            yield "position", shape[2:].numel()
        elif length and like.dim() == 3 and shape[2] == length:
            yield "channels first", shape[1]
        if view.full is not None and like.dim() == 4:
            yield "grid", shape[1]
        if shape[1:].numel() <= _MOST_ANSWERS:
            yield "sample", shape[1:].numel()
    elif length and shape[0] == samples * length:
        yield "rows", shape[1:].numel()


def _start(material: Material, output: Any, answer: Answer, targets: Sequence[Any]) -> None:
    """Offset and scale: the best of some constants that the targets suggest."""
    target = targets[0]
    if not isinstance(target, Tensor):
        return
    like, tried = answer.like, [(torch.zeros(()), torch.ones(()))]
    alike = [y.detach().cpu() for y in targets if isinstance(y, Tensor) and y.shape == target.shape]
    if target.is_floating_point() and target.numel() == like.numel():
        values = torch.stack([y.double().reshape(like.shape) for y in alike])
        values = torch.where(values.isfinite(), values, math.nan)
        if answer.form == "sample":
            values = values.flatten(0, 1)[:, None]
        elif answer.form in ("position",):
            values = values.flatten(0, 2)[:, None, None]
        elif answer.form == "rows":
            values = values.flatten(0, 1)[:, None]
        else:
            values = values.transpose(2, -1).flatten(0, -2)[:, None, :, *[None] * (like.dim() - 2)]
        mean = values.nanmean(0).nan_to_num()
        spread = (values - mean).square().nanmean(0).sqrt().nan_to_num()
        usual = spread.square().mean().sqrt()
        spread = torch.maximum(spread, 0.05 * usual) if usual > 0 else torch.ones_like(spread)
        tried.append((mean.float(), spread.float()))
        if bool(((values == 0) | (values == 1) | values.isnan()).all()):
            tried.append((mean.clamp(1e-3, 1 - 1e-3).logit().float(), torch.ones(())))
    elif not target.is_floating_point():
        numbers = torch.cat([y.flatten() for y in alike]).long()
        for axis in {1, like.dim() - 1}:
            classes = like.shape[axis]
            if like.dim() > 1 and classes > 1 and classes * target.numel() == like.numel():
                counts = torch.bincount(numbers[(numbers >= 0) & (numbers < classes)], minlength=classes)
                shape = [classes if place == axis else 1 for place in range(like.dim())]
                tried.append((((counts + 0.5) / (counts.sum() + 0.5 * classes)).log().reshape(shape), torch.ones(())))
    losses = []
    for offset, _ in tried:
        constant = offset.expand(like.shape)
        answered = (constant if answer.along is None else constant.log_softmax(answer.along)).to(like)
        try:
            whole = map_tensors(lambda t: answered if t is like else t, output)
            value = sum(float(material.loss(whole, y)) for y in targets[:4])
        except Exception:
            value = math.inf
        losses.append(value if math.isfinite(value) else math.inf)
    answer.offset, answer.scale = tried[losses.index(min(losses))]


# Learners.


class Weights:
    """Parameters of a learner, drawn from a generator of its own."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.parameters: list[Tensor] = []

    def drawn(self, *shape: int, deviation: float) -> Tensor:
        found = torch.randn(*shape, generator=self._generator, dtype=torch.float32) * deviation
        self.parameters.append(found.requires_grad_())
        return found

    def layer(self, inputs: int, outputs: int, *kernel: int) -> tuple[Tensor, Tensor]:
        fan_in = inputs * math.prod(kernel)
        return (
            self.drawn(outputs, inputs, *kernel, deviation=math.sqrt(2 / fan_in)),
            self.drawn(outputs, deviation=0.0),
        )


Body = Callable[[View], Tensor]
Build = Callable[[Weights, View], tuple[Body, int]]


def linear(weights: Weights, view: View) -> tuple[Body, int]:
    return lambda view: view.flat, view.flat.shape[1]


def mlp(weights: Weights, view: View) -> tuple[Body, int]:
    first = weights.layer(view.flat.shape[1], _HIDDEN)
    second = weights.layer(_HIDDEN, _HIDDEN)
    return lambda view: functional.relu(
        functional.linear(functional.relu(functional.linear(view.flat, *first)), *second)
    ), _HIDDEN


def convolution(weights: Weights, view: View) -> tuple[Body, int]:
    channels, *sides = view.grid.shape[1:]
    first, second = weights.layer(channels, 16, 3, 3), weights.layer(16, 32, 3, 3)

    def body(view: View) -> Tensor:
        x = functional.max_pool2d(functional.relu(functional.conv2d(view.grid, *first, padding=1)), 2, ceil_mode=True)
        x = functional.relu(functional.conv2d(x, *second, padding=1))
        x = functional.max_pool2d(x, 2, ceil_mode=True)
        return x.flatten(1)

    size = 32 * math.prod(-(-(-(-side // 2)) // 2) for side in sides)
    return body, size


def series(kernel: int) -> Build:
    def build(weights: Weights, view: View) -> tuple[Body, int]:
        first, second = weights.layer(view.line.shape[1], 64, kernel), weights.layer(64, 64, kernel)

        def body(view: View) -> Tensor:
            x = view.line
            x = functional.relu(functional.conv1d(x, *first, padding=kernel // 2))
            x = functional.relu(functional.conv1d(x, *second, padding=kernel // 2))
            return torch.cat([x.mean(2), x.amax(2)], 1)

        return body, 128

    return build


def _shifted(x: Tensor, shifts: Sequence[int]) -> Tensor:
    """(samples, positions, features) with earlier (positive) and later neighbours beside each position."""
    length = x.shape[1]
    before, after = max(0, *shifts), max(0, *(-s for s in shifts))
    padded = functional.pad(x, (0, 0, before, after))
    return torch.cat([padded[:, before - s : before - s + length] for s in shifts], 2)


def _embedded(weights: Weights, view: View, size: int) -> tuple[Body, int]:
    if view.tokens is not None:
        table = weights.drawn(VOCAB[0], size, deviation=1.0)
        return lambda view: table[view.tokens], size
    return lambda view: view.line.transpose(1, 2), view.line.shape[1]


VOCAB = [0]


def positions(shifts: Sequence[int], causal: bool) -> Build:
    def build(weights: Weights, view: View) -> tuple[Body, int]:
        embed, size = _embedded(weights, view, 32)
        first = weights.layer(size * (len(shifts) + 1), _HIDDEN)
        second = weights.layer(_HIDDEN, _HIDDEN)

        def body(view: View) -> Tensor:
            x = embed(view)
            if causal:
                mean = x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]
            else:
                mean = x.mean(1, keepdim=True).expand(x.shape)
            x = torch.cat([_shifted(x, shifts), mean], 2)
            return functional.relu(functional.linear(functional.relu(functional.linear(x, *first)), *second))

        return body, _HIDDEN

    return build


def table(weights: Weights, view: View) -> tuple[Body, int]:
    """One-hot."""
    return lambda view: functional.one_hot(view.tokens, VOCAB[0]).float(), VOCAB[0]


def bag(weights: Weights, view: View) -> tuple[Body, int]:
    return lambda view: 4 * functional.one_hot(view.tokens, VOCAB[0]).float().mean(1), VOCAB[0]


def sentence(weights: Weights, view: View) -> tuple[Body, int]:
    embed, size = _embedded(weights, view, 32)
    first = weights.layer(3 * size, 64)

    def body(view: View) -> Tensor:
        x = functional.relu(functional.linear(_shifted(embed(view), (-1, 0, 1)), *first))
        return torch.cat([x.mean(1), x.amax(1)], 1)

    return body, 128


def placed(weights: Weights, view: View) -> tuple[Body, int]:
    """Tokens at their places."""
    length = min(view.tokens.shape[1], 64)
    embed, size = _embedded(weights, view, 16)
    first = weights.layer(length * size, _HIDDEN)
    return lambda view: functional.relu(
        functional.linear(_sized(embed(view), (length, size)).flatten(1), *first)
    ), _HIDDEN


def picture(weights: Weights, view: View) -> tuple[Body, int]:
    channels = view.full.shape[1]
    first, second = weights.layer(channels, 16, 3, 3), weights.layer(16, 16, 3, 3)

    def body(view: View) -> Tensor:
        x = view.full if max(view.full.shape[2:]) <= 2 * _SIDE else view.grid
        x = functional.relu(functional.conv2d(x, *first, padding=1))
        return functional.relu(functional.conv2d(x, *second, padding=1))

    return body, 16


def builds(view: View, form: Form, causal: bool) -> list[tuple[str, Build]]:
    """The learners for inputs of a kind and answers of a form."""
    if form == "grid":
        return [("picture", picture)]
    if form != "sample":
        around = positions((0, 1, 2, 3), True) if causal else positions((-2, -1, 0, 1, 2), False)
        found = [("context", around)]
        return [("table", table), *found] if view.tokens is not None else found
    found = []
    if causal:
        return []
    if view.flat is not None:
        found += [("linear", linear), ("mlp", mlp)]
    if view.grid is not None:
        found.append(("convolution", convolution))
    if view.line is not None:
        found += [("set", series(1)), ("series", series(5))]
    if view.tokens is not None:
        found += [("bag", bag), ("sentence", sentence), ("placed", placed)]
    return found


class Run:
    """One learner at one rate."""

    def __init__(self, name: str, build: Build, rate: float, view: View, answers: Sequence[Answer], seed: int) -> None:
        self.name, self.rate, self.answers = name, rate, answers
        self.weights = Weights(seed)
        self.body, size = build(self.weights, view)
        self.heads = [
            (self.weights.drawn(a.size, size, deviation=0.0), self.weights.drawn(a.size, deviation=0.0))
            for a in answers
        ]
        self.losses: list[float] = []

    def output(self, view: View, output: Any) -> Any:
        x = self.body(view)
        found = {}
        for answer, head in zip(self.answers, self.heads, strict=True):
            if answer.form == "grid":
                value = functional.conv2d(x, head[0][:, :, None, None], head[1])
            else:
                value = functional.linear(x, *head)
            found[id(answer.like)] = answer.of(value)
        return map_tensors(lambda t: found.get(id(t), t.detach()), output)


def _pace(done: float) -> float:
    return 1.0 if done < 0.5 else 1.0 - 0.9 * (done - 0.5) / 0.5


def _runs(material: Material, output: Any, steps: int, seed: int) -> list[Run]:
    steps = min(steps, material.batches.read(steps))
    many = -(-_KNOWN // max(1, material.samples))
    known = [material.batch(step) for step in range(min(many, len(material.batches)))]
    used = used_outputs(material, output)
    reader = Reader([x for x, _ in known], used, seed)
    VOCAB[0] = reader.vocabulary
    first = reader(known[0][0])
    runs: list[Run] = []
    tokens, target = first.tokens, known[0][1]
    causal = False
    if tokens is not None and isinstance(target, Tensor) and target.shape == tokens.shape:
        causal = any(float((target[:, : -s or None] == tokens[:, s:]).float().mean()) > _SAME for s in (0, 1, 2))
    forms = [dict(_forms(t, first)) for t in used]
    for form in ("position", "channels first", "rows", "grid", "sample"):
        if all(form in one for one in forms):
            answers = [Answer(t, form, one[form], _axis_of_log_probabilities(t)) for t, one in zip(used, forms)]
            for a in answers:
                _start(material, output, a, [y for _, y in known])
            for rate in RATES:
                runs += [Run(n, b, rate, first, answers, seed) for n, b in builds(first, form, causal)]
    groups = [
        {"params": [p for r in runs if r.rate == rate for p in r.weights.parameters], "lr": rate} for rate in RATES
    ]
    adam = torch.optim.Adam(groups, betas=(0.9, 0.99), eps=1e-12, fused=True)
    for step in range(steps):
        inputs, target = material.batch(step)
        view = reader(inputs)
        for group, rate in zip(adam.param_groups, RATES, strict=True):
            group["lr"] = rate * _pace(step / steps)
        values = []
        for run in runs:
            value = material.loss(run.output(view, output), target)
            run.losses.append(float(value.detach()))
            values.append(value)
        parameters = [p for r in runs for p in r.weights.parameters]
        slopes = torch.autograd.grad(torch.stack(values).sum() / abs(material.chance), parameters)
        for p, s in zip(parameters, slopes, strict=True):
            p.grad = s
        adam.step()
    return runs
