"""What the models of the trial learn: images, sequences and regression, each batch a function of seed and step.

Chance is the loss of the best constant: the entropy of the labels, the variance of the values. Targets of regression
have variance 1, so that chance is about 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from isometer.errors import unknown_name

Tensor = torch.Tensor
Kind = Literal["images", "sequences", "regression"]
Form = Literal["image", "tokens", "series", "features", "points"]
Source = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
_CHANCE_SAMPLES = 4096


@dataclass(frozen=True)
class Task:
    """Something to learn.

    Example:
        >>> task = TASKS["friedman"]
        >>> inputs, targets = task.batch(4, seed=0, step=0)
        >>> inputs.shape, targets.shape, 0.9 < task.chance() < 1.1
        (torch.Size([4, 10]), torch.Size([4, 1]), True)

    Attributes:
        name: what it is called.
        kind: images, sequences or regression.
        form: what one sample is: `image` (channels, rows, columns), `tokens` (whole numbers), `series` (steps,
            features), `features`, or `points` (points, coordinates).
        shape: of one sample.
        outputs: numbers the model returns per target: classes, or values.
        objective: `classes` (cross-entropy) or `values` (squared error).
        per_position: whether there is a target at every position, as in language modelling.
        vocabulary: number of different tokens, 0 for inputs that are not tokens.
        source: makes so many inputs and targets from a generator.
    """

    name: str
    kind: Kind
    form: Form
    shape: tuple[int, ...]
    outputs: int
    objective: Literal["classes", "values"]
    source: Source
    per_position: bool = False
    vocabulary: int = 0

    def batch(self, samples: int, *, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of one step; other seeds and other steps have other samples."""
        number = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)
        return self.source(samples, torch.Generator().manual_seed(number))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy or mean squared error."""
        if self.objective == "values":
            return functional.mse_loss(output, target)
        return functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))

    def chance(self) -> float:
        """Loss of the best constant answer."""
        return _chance(self.name)


@cache
def _chance(name: str) -> float:
    task = TASKS[name]
    _, target = task.batch(_CHANCE_SAMPLES, seed=2**31, step=0)
    if task.objective == "values":
        return float(target.double().var(dim=0, correction=0).mean())
    share = torch.bincount(target.reshape(-1), minlength=task.outputs).double()
    share = share[share > 0] / share.sum()
    return float(-(share * share.log()).sum())


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        IsometerError: there is none; the nearest is named.

    Example:
        >>> task_named("text").per_position
        True
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


# Images.


class _Pictures(NamedTuple):
    images: Tensor
    labels: Tensor


@cache
def _pictures(name: str) -> _Pictures:
    """The training set, averaged over 2×2 pixels and standardised."""
    from isometer.data import load

    data = load(name)
    pixels = torch.as_tensor(np.ascontiguousarray(data.images, dtype=np.float32))
    pixels = functional.avg_pool2d(pixels, 2)
    pixels = (pixels - pixels.mean()) / pixels.std()
    return _Pictures(pixels, torch.as_tensor(data.labels.astype(np.int64)))


def _labelled(name: str) -> Source:
    def source(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        data = _pictures(name)
        chosen = torch.randint(len(data.labels), (samples,), generator=generator)
        return data.images[chosen], data.labels[chosen]

    return source


def _rows(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures read row by row."""
    images, labels = _labelled("fashion-mnist")(samples, generator)
    return images.squeeze(1), labels


def _noisy(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A picture under noise, and the picture."""
    clean = _labelled("mnist")(samples, generator)[0]
    return clean + 0.5 * torch.randn(clean.shape, generator=generator), clean


def _gratings(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Stripes of eight directions under noise; no data set is needed."""
    label = torch.randint(8, (samples,), generator=generator)
    phase = 2 * math.pi * torch.rand(samples, 1, 1, generator=generator)
    angle = (label * math.pi / 8)[:, None, None]
    line = torch.arange(12.0)
    wave = torch.sin(1.1 * (line[:, None] * angle.cos() + line[None, :] * angle.sin()) + phase)
    return (wave + 0.7 * torch.randn(wave.shape, generator=generator))[:, None], label


# Sequences.

_STATES, _LENGTH = 24, 24


@cache
def _transitions() -> Tensor:
    """Rows of a fixed Markov chain; each state has a few likely successors."""
    return torch.as_tensor(np.random.default_rng(11).dirichlet(np.full(_STATES, 0.15), _STATES))


def _markov(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The next state of a chain, at every position."""
    chain, state = _transitions(), torch.randint(_STATES, (samples,), generator=generator)
    path = [state]
    for _ in range(_LENGTH):
        state = torch.multinomial(chain[state], 1, generator=generator)[:, 0]
        path.append(state)
    whole = torch.stack(path, dim=1)
    return whole[:, :-1], whole[:, 1:]


_CHARACTERS = 64


@cache
def _text() -> Tensor:
    """English with code in it: the help texts that come with Python, in their 63 most frequent characters."""
    from pydoc_data.topics import topics

    whole = "\n".join(topics[key] for key in sorted(topics))
    symbols, counts = np.unique(np.array(list(whole)), return_counts=True)
    kept = {
        symbol: place for place, symbol in enumerate(symbols[np.argsort(-counts, kind="stable")][: _CHARACTERS - 1])
    }
    return torch.tensor([kept.get(symbol, _CHARACTERS - 1) for symbol in whole])


def _characters(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The next character, at every position."""
    text = _text()
    start = torch.randint(len(text) - _LENGTH - 1, (samples, 1), generator=generator)
    whole = text[start + torch.arange(_LENGTH + 1)]
    return whole[:, :-1], whole[:, 1:]


def _majority(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which of four marked tokens is most frequent; the others are noise."""
    label = torch.randint(4, (samples,), generator=generator)
    tokens = torch.randint(16, (samples, _LENGTH), generator=generator)
    marked = torch.rand(samples, _LENGTH, generator=generator) < 0.2
    return torch.where(marked, label[:, None], tokens), label


@cache
def _tag_table() -> Tensor:
    return torch.as_tensor(np.random.default_rng(12).integers(0, 6, (16, 2)))


def _tags(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A tag for every token, which depends on the token and on the half its left neighbour belongs to."""
    tokens = torch.randint(16, (samples, _LENGTH + 1), generator=generator)
    return tokens[:, 1:], _tag_table()[tokens[:, 1:], (tokens[:, :-1] >= 8).long()]


def _nesting(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """How many brackets are open, at every position: two tokens open one, two close one, two do nothing."""
    tokens = torch.randint(6, (samples, _LENGTH), generator=generator)
    step = torch.tensor([1, 1, -1, -1, 0, 0])[tokens]
    depth, path = torch.zeros(samples, dtype=torch.long), []
    for place in range(_LENGTH):
        depth = (depth + step[:, place]).clamp(0, 5)
        path.append(depth)
    return tokens, torch.stack(path, dim=1)


def _rhythms(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which of six frequencies a noisy signal in three channels has."""
    label = torch.randint(6, (samples,), generator=generator)
    frequency = 2 * math.pi * (label + 1.0)[:, None, None] / 20
    phase = 2 * math.pi * torch.rand(samples, 1, 3, generator=generator)
    signal = torch.sin(frequency * torch.arange(_LENGTH)[None, :, None] + phase)
    return 1.2 * signal + 0.5 * torch.randn(signal.shape, generator=generator), label


# Regression.


@cache
def _teacher_weights() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(13)
    return torch.as_tensor(rng.normal(size=(16, 8)), dtype=torch.float32) / 4, torch.as_tensor(
        rng.normal(size=(8, 1)), dtype=torch.float32
    )


def _taught(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A small random network's answer."""
    first, second = _teacher_weights()
    inputs = torch.randn(samples, 16, generator=generator)
    return inputs, torch.tanh(1.5 * inputs @ first) @ second / 3.25


def _friedman(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Friedman's first function of ten features, five of them without effect; standardised."""
    x = torch.rand(samples, 10, generator=generator)
    value = 10 * torch.sin(math.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return (x - 0.5) * math.sqrt(12), ((value - 14.41) / 4.9)[:, None]


def _field(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A picture as a function of its coordinates: a few waves over a square."""
    place = 2 * torch.rand(samples, 2, generator=generator) - 1
    x, y = place[:, 0], place[:, 1]
    value = torch.sin(3 * x + 2 * y) + torch.cos(4 * x * y + 1) + torch.sin(5 * y - 2 * x)
    return place * math.sqrt(3), ((value - 0.45) / 1.17)[:, None]


def _forecast(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Six further steps of a sum of two oscillations."""
    period = torch.tensor([6.0, 11.0]) + 2 * torch.rand(samples, 1, 2, generator=generator)
    phase = 2 * math.pi * torch.rand(samples, 1, 2, generator=generator)
    time = torch.arange(_LENGTH + 6.0)[None, :, None]
    path = torch.sin(2 * math.pi * time / period + phase).sum(dim=2)
    path = path + 0.1 * torch.randn(path.shape, generator=generator)
    return path[:, :_LENGTH, None], path[:, _LENGTH:]


def _cloud(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Extent and tilt of a set of points, which do not depend on their order."""
    stretch = torch.rand(samples, 1, 3, generator=generator) * 1.5 + 0.3
    points = torch.randn(samples, 16, 3, generator=generator) * stretch
    extent = points.amax(dim=1) - points.amin(dim=1)
    product = (points[:, :, 0] * points[:, :, 1]).mean(dim=1, keepdim=True)
    return points, torch.cat([(extent[:, :2] - 3.7) / 1.7, product / 0.45], dim=1)


def _integral(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The antiderivative of a random smooth function, on a grid of 24 points."""
    order = torch.arange(1, 6.0)
    weight = torch.randn(samples, 5, generator=generator) / order
    grid = math.pi * (torch.arange(24.0) + 0.5) / 24
    function = weight @ torch.sin(order[:, None] * grid)
    integral = (weight / order) @ (1 - torch.cos(order[:, None] * grid))
    return function / 0.87, (integral - integral.mean(dim=1, keepdim=True)) / 0.76


def _locate(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where in a noisy picture the brighter of two spots is."""
    place = 1 + 9 * torch.rand(samples, 2, 2, generator=generator)  # the bright one and the other, row and column
    line = torch.arange(12.0)
    spots = torch.exp(-((line - place[..., None]) ** 2) / 2)  # (samples, spot, axis, 12)
    image = torch.einsum("s,nsr,nsc->nrc", torch.tensor([4.0, 2.0]), spots[:, :, 0], spots[:, :, 1])
    noise = 0.3 * torch.randn(image.shape, generator=generator)
    return (image + noise)[:, None], (place[:, 0] - 5.5) / 2.6


def _twins(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """How alike two samples are in the four of their twelve features that count."""
    pair = torch.randn(samples, 2, 12, generator=generator)
    shared = torch.randn(samples, 1, 4, generator=generator)
    pair[:, :, :4] = 0.7 * (pair[:, :, :4] + shared)
    distance = (pair[:, 0, :4] - pair[:, 1, :4]).norm(dim=1, keepdim=True)
    return pair, (distance - 1.86) / 0.68


GRAPH_NODES = 12


@cache
def graph() -> Tensor:
    """Adjacency of the graph whose nodes the task `graph` is about: a ring with chords, self-loops included.

    Example:
        >>> graph().sum(dim=1).min().item() >= 3
        True
    """
    adjacency = torch.eye(GRAPH_NODES)
    for node in range(GRAPH_NODES):
        for other in (node + 1, node + 1 + node % 3 * 2):
            adjacency[node, other % GRAPH_NODES] = adjacency[other % GRAPH_NODES, node] = 1.0
    return adjacency


def _graph(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """How much a node's neighbours agree, averaged over the nodes of a graph, and the mean of a diffused feature."""
    features = torch.randn(samples, GRAPH_NODES, 6, generator=generator)
    mean = graph() @ features / graph().sum(dim=1, keepdim=True)
    agreement = (mean[:, :, 0] ** 2 + mean[:, :, 1] * features[:, :, 2]).mean(dim=1, keepdim=True)
    return features, torch.cat([(agreement - 0.24) / 0.21, mean[:, :, 3].mean(dim=1, keepdim=True) / 0.3], dim=1)


def _images(name: str, shape: tuple[int, ...], source: Source, classes: int = 10) -> Task:
    return Task(name, "images", "image", shape, classes, "classes", source)


def _language(name: str, source: Source, outputs: int, vocabulary: int, *, per_position: bool = True) -> Task:
    return Task(name, "sequences", "tokens", (_LENGTH,), outputs, "classes", source, per_position, vocabulary)


def _signals(name: str, shape: tuple[int, int], source: Source, classes: int) -> Task:
    return Task(name, "sequences", "series", shape, classes, "classes", source)


def _regression(name: str, form: Form, shape: tuple[int, ...], source: Source, outputs: int = 1) -> Task:
    return Task(name, "regression", form, shape, outputs, "values", source)


_ALL = (
    _images("fashion-mnist", (1, 14, 14), _labelled("fashion-mnist")),
    _images("mnist", (1, 14, 14), _labelled("mnist")),
    _images("cifar10", (3, 16, 16), _labelled("cifar10")),
    _images("gratings", (1, 12, 12), _gratings, classes=8),
    _language("markov", _markov, _STATES, _STATES),
    _language("text", _characters, _CHARACTERS, _CHARACTERS),
    _language("tags", _tags, 6, 16),
    _language("nesting", _nesting, 6, 6),
    _language("majority", _majority, 4, 16, per_position=False),
    _signals("rows", (14, 14), _rows, 10),
    _signals("rhythms", (_LENGTH, 3), _rhythms, 6),
    _regression("teacher", "features", (16,), _taught),
    _regression("friedman", "features", (10,), _friedman),
    _regression("field", "features", (2,), _field),
    _regression("integral", "features", (24,), _integral, 24),
    _regression("forecast", "series", (_LENGTH, 1), _forecast, 6),
    _regression("cloud", "points", (16, 3), _cloud, 3),
    _regression("graph", "points", (GRAPH_NODES, 6), _graph, 2),
    _regression("twins", "points", (2, 12), _twins),
    _regression("locate", "image", (1, 12, 12), _locate, 2),
    _regression("denoise", "image", (1, 14, 14), _noisy, 196),
)

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _ALL})
"""The tasks by name."""
