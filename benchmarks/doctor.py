"""What a diagnosis costs: passes of the model, and processor time as a ratio to one forward and backward pass.

A pass is one forward and one backward; a forward alone is a third of one. Passes are counted where the model runs.
The plain pass and the diagnosis are measured in the same process on one thread, the least processor time of a few turns
each. The command is measured in processes of its own, against the import of torch.

Run with `python -m benchmarks doctor`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from isometer.doctor import diagnose

SAMPLES = 32
HEALTHY, SICK = 2.0, 12.0
"""Passes that a diagnosis may take where nothing is found, and where something is."""
COMMAND = 2.0
"""Seconds of processor time that the command may take beyond the import of torch, for an MLP of 20 layers."""


class Whole(nn.Module):
    """A model, told apart from the modules inside it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.net(*args, **kwargs)


class Block(nn.Module):
    """Two 3×3 convolutions with batch norm, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.convolutions[0](x)))
        return torch.relu(x + self.norms[1](self.convolutions[1](inner)))


class TimeLoop(nn.Module):
    """An LSTM written out: a step of Python per step of time, nine sites each."""

    def __init__(self, steps: int = 500, width: int = 64) -> None:
        super().__init__()
        self.steps, self.width = steps, width
        self.inputs, self.state, self.readout = (
            nn.Linear(8, 4 * width),
            nn.Linear(width, 4 * width),
            nn.Linear(width, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.shape[0], self.width)
        states = []
        for step in range(self.steps):
            i, f, g, o = (self.inputs(x[:, step]) + self.state(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        output: torch.Tensor = self.readout(torch.stack(states, 1))
        return output


def mlp(layers: int, width: int) -> nn.Sequential:
    """Linear layers and ReLU at He's gain, and a readout."""
    torch.manual_seed(0)
    stack: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(width, width)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        stack += [linear, nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(width, 10))


def mlp_20() -> nn.Sequential:
    """What the command is given."""
    return mlp(20, 128)


def _resnet() -> tuple[nn.Module, Any]:
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    blocks = [Block(16) for _ in range(9)]
    net = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return net, torch.randn(SAMPLES, 3, 16, 16)


def _gpt() -> tuple[nn.Module, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=256, n_positions=32, n_embd=128, n_layer=48, n_head=4, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(0, 256, (SAMPLES, 32))}


CASES: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "MLP 20 × 128": lambda: (mlp_20(), torch.randn(SAMPLES, 128)),
    "MLP 100 × 128": lambda: (mlp(100, 128), torch.randn(SAMPLES, 128)),
    "convnet with skips and batch norm, 9 blocks": _resnet,
    "LSTM in Python, 500 steps": lambda: (TimeLoop(), torch.randn(SAMPLES, 500, 8)),
    "MLP 1000 × 512": lambda: (mlp(1000, 512), torch.randn(SAMPLES, 512)),
    "GPT of 48 blocks, width 128": _gpt,
}


def _first(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else next(iter(output.values()))


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Forward and backward passes of models inside a `Whole`, copies of them included."""
    counts = {"forward": 0, "backward": 0}

    def back(gradient: torch.Tensor) -> None:
        counts["backward"] += 1

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(module, Whole):
            counts["forward"] += 1
            if _first(output).requires_grad:
                _first(output).register_hook(back)  # type: ignore[no-untyped-call]

    handle = nn.modules.module.register_module_forward_hook(after)
    try:
        yield counts
    finally:
        handle.remove()


def _plain(model: nn.Module, batch: Any) -> None:
    output = _first(model(**batch) if isinstance(batch, dict) else model(batch))
    output.backward(torch.randn_like(output))
    model.zero_grad()


def measured(name: str, turns: int = 2) -> dict[str, float]:
    torch.manual_seed(1)
    net, batch = CASES[name]()
    model = Whole(net)
    with counted() as counts:
        report = diagnose(model, batch, stress=False)
    functions: list[Callable[[], object]] = [
        lambda: _plain(model, batch),
        lambda: diagnose(model, batch, stress=False),
        lambda: diagnose(model, batch, predict=False, stress=False),
    ]
    _plain(model, batch)  # what torch prepares on first use is nobody's cost
    best = [float("inf")] * 3
    for _ in range(turns):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return {
        "findings": len(report.findings),
        "sites": len(report.examination),
        "passes": counts["forward"] / 3 + counts["backward"] * 2 / 3,
        "passes_allowed": SICK if report.findings else HEALTHY,
        "plain_seconds": best[0],
        "diagnosis_seconds": best[1],
        "time_ratio": best[1] / best[0],
        "time_ratio_without_prediction": best[2] / best[0],
    }


def _command() -> dict[str, float]:
    from benchmarks.startup import seconds

    calls = [["-c", "import torch"], ["-m", "isometer.cli", "doctor", "benchmarks.doctor:mlp_20", "--no-stress"]]
    imports, whole = (min(seconds(arguments) for _ in range(3)) for arguments in calls)
    return {"import_torch_seconds": imports, "seconds": whole, "beyond": whole - imports, "beyond_allowed": COMMAND}


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    from benchmarks.environment import show

    torch.set_num_threads(1)
    results = {name: measured(name, turns=1 if "1000" in name else 2) for name in CASES}
    results["isometer doctor, MLP 20 × 128"] = _command()
    show(f"torch {torch.__version__}, n = {SAMPLES}, {torch.get_num_threads()} thread(s)", results)
    return results
