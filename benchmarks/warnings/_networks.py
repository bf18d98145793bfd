"""The networks and their made-up tasks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.warnings._roster import WatchedNetwork

Tensor = torch.Tensor
_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
CLASSES, TOKENS, LENGTH = 8, 16, 12


class HalfStream(nn.Module):
    """A scaled stream in float16, normalised behind."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.to_half = ToHalf()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Any:
        return self.norm(self.to_half(x * self.gain).float())


class ToHalf(nn.Module):
    """Float16 from here on, in a module that the probe sees."""

    def forward(self, x: Tensor) -> Tensor:
        return x.half()


class PlainNet(nn.Module):
    """A perceptron: `body`, an optional float16 stream, `readout`."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        fan = 20
        for _ in range(one.depth):
            layers += [nn.Linear(fan, one.width), *([nn.LayerNorm(one.width)] if one.norm else [])]
            layers.append(_ACTIVATIONS[one.activation]())
            fan = one.width
        self.body = nn.Sequential(*layers)
        self.stream = HalfStream(one.width) if one.half else nn.Identity()
        self.readout = nn.Linear(one.width, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.stream(self.body(x)))


class ConvBlock(nn.Module):
    """Two convolutions beside a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.norm_first = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.second, self.norm_second = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.act_first, self.act_second = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Any:
        inner = self.act_first(self.norm_first(self.first(x)))
        return self.act_second(x + self.norm_second(self.second(inner)))


class ResidualNet(nn.Module):
    """A small ResNet of 8 × 8 images."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        channels = one.width // 3
        self.stem, self.stem_act = nn.Conv2d(1, channels, 3, padding=1), nn.ReLU()
        self.body = nn.Sequential(*[ConvBlock(channels) for _ in range(one.depth - 1)])
        self.stream = HalfStream(channels) if one.half else nn.Identity()
        self.readout = nn.Linear(channels, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.stream(self.body(self.stem_act(self.stem(x))).mean((2, 3))))


class TokenBlock(nn.Module):
    """Causal attention and a perceptron, each after a normalisation and beside a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_first, self.norm_second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.act, self.down = nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Any:
        y = self.norm_first(x)
        heads = [part(y).unflatten(-1, (2, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(self.act(self.up(self.norm_second(x))))


class TokenNet(nn.Module):
    """A small GPT."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(TOKENS, one.width), nn.Embedding(LENGTH, one.width)
        self.body = nn.Sequential(*[TokenBlock(one.width) for _ in range(one.depth)])
        self.stream = HalfStream(one.width) if one.half else nn.LayerNorm(one.width)
        self.readout = nn.Linear(one.width, TOKENS)

    def forward(self, tokens: Tensor) -> Any:
        x = self.embed(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.readout(self.stream(self.body(x)))


class RecurrentNet(nn.Module):
    """A recurrent layer or two; the class is read off its last state."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        make = nn.RNN if one.norm else nn.GRU
        self.body = make(4, one.width, num_layers=one.depth, batch_first=True)
        self.stream = HalfStream(one.width) if one.half else nn.Identity()
        self.readout = nn.Linear(one.width, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.stream(self.body(x)[0][:, -1]))


class MixerBlock(nn.Module):
    """Patches mixed by one perceptron, channels by another, each after a normalisation and beside a skip connection."""

    def __init__(self, width: int, patches: int, activation: str) -> None:
        super().__init__()
        self.norm_first, self.norm_second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens_up, self.tokens_down = nn.Linear(patches, 2 * patches), nn.Linear(2 * patches, patches)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.act_first, self.act_second = _ACTIVATIONS[activation](), _ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Any:
        y = self.norm_first(x).transpose(1, 2)
        x = x + self.tokens_down(self.act_first(self.tokens_up(y))).transpose(1, 2)
        return x + self.down(self.act_second(self.up(self.norm_second(x))))


class MixerNet(nn.Module):
    """A small MLP-Mixer of 8 × 8 images in 16 patches."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        self.stem = nn.Linear(4, one.width)
        self.body = nn.Sequential(*[MixerBlock(one.width, 16, one.activation) for _ in range(one.depth)])
        self.stream = HalfStream(one.width) if one.half else nn.LayerNorm(one.width)
        self.readout = nn.Linear(one.width, CLASSES)

    def forward(self, x: Tensor) -> Any:
        patches = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).flatten(1, 3)
        return self.readout(self.stream(self.body(self.stem(patches)).mean(1)))


class BottleneckNet(nn.Module):
    """An autoencoder: its targets are its inputs, its loss is the mean square."""

    def __init__(self, one: WatchedNetwork) -> None:
        super().__init__()
        widths = [20, *[one.width] * (one.depth - 1), 6, *[one.width] * (one.depth - 1)]
        layers: list[nn.Module] = []
        for fan, width in itertools.pairwise(widths):
            layers += [nn.Linear(fan, width), *([nn.LayerNorm(width)] if one.norm and width > 6 else [])]
            layers += [_ACTIVATIONS[one.activation]()] if width > 6 else []
        self.body = nn.Sequential(*layers)
        self.stream = HalfStream(one.width) if one.half else nn.Identity()
        self.readout = nn.Linear(one.width, 20)

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.stream(self.body(x)))


_MAKERS: dict[str, Callable[[WatchedNetwork], nn.Module]] = {
    "mlp": PlainNet,
    "conv": ResidualNet,
    "gpt": TokenNet,
    "rnn": RecurrentNet,
    "mixer": MixerNet,
    "auto": BottleneckNet,
}


def made(one: WatchedNetwork) -> nn.Module:
    """The network with weights of its number."""
    torch.manual_seed(one.number)
    return _MAKERS[one.architecture](one)


class Task:
    """Batches without end, the same for all runs of a network."""

    def __init__(self, one: WatchedNetwork) -> None:
        self.architecture = one.architecture
        self.draw = torch.Generator().manual_seed(7000 + one.number)
        self.templates = torch.randn(CLASSES, 1, 8, 8, generator=self.draw)
        self.teacher = torch.randn(20, 24, generator=self.draw), torch.randn(24, CLASSES, generator=self.draw)
        self.filter = torch.randn(4, CLASSES, generator=self.draw)
        self.table = torch.randint(TOKENS, (TOKENS, TOKENS), generator=self.draw)
        self.sources = torch.randn(4, 20, generator=torch.Generator().manual_seed(8000 + one.number))

    def batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets."""
        draws = {"mlp": self._vectors, "conv": self._images, "gpt": self._tokens, "rnn": self._sequences}
        draws |= {"mixer": self._images, "auto": self._mixtures}
        return draws[self.architecture]()

    def _vectors(self) -> tuple[Tensor, Tensor]:
        x = torch.randn(64, 20, generator=self.draw)
        return x, (torch.tanh(x @ self.teacher[0]) @ self.teacher[1]).argmax(1)

    def _images(self) -> tuple[Tensor, Tensor]:
        y = torch.randint(CLASSES, (32,), generator=self.draw)
        shift = int(torch.randint(8, (1,), generator=self.draw))
        x = self.templates[y].roll(shift, 3) + 1.5 * torch.randn(32, 1, 8, 8, generator=self.draw)
        return x, y

    def _tokens(self) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(TOKENS, (16, LENGTH + 1), generator=self.draw)
        # The next token follows from the last two, but for one in ten, which is random.
        for at in range(2, LENGTH + 1):
            known = self.table[tokens[:, at - 1], tokens[:, at - 2] % 2]
            keep = torch.rand(16, generator=self.draw) < 0.1
            tokens[:, at] = torch.where(keep, tokens[:, at], known)
        return tokens[:, :-1], tokens[:, 1:]

    def _sequences(self) -> tuple[Tensor, Tensor]:
        x = torch.randn(32, LENGTH, 4, generator=self.draw)
        return x, (x[:, 6:10].sum(1) @ self.filter).argmax(1)

    def _mixtures(self) -> tuple[Tensor, Tensor]:
        x = torch.tanh(torch.randn(64, 4, generator=self.draw) @ self.sources)
        return x + 0.1 * torch.randn(64, 20, generator=self.draw), x


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of classes, mean square of numbers."""
    if targets.is_floating_point():
        return functional.mse_loss(model(inputs), targets)
    return functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
