"""What a probe costs, as ratios to one forward and backward pass measured in the same run.

Both sides work in turns on one thread, and the turn that took the least processor time counts, so that other work on
the machine matters little. Memory is measured in processes of their own, one for the plain pass and one for the probe:
how far the peak of the resident set rises above where it was once torch was imported, the model and batch included,
since a user has those in memory either way.

Run with `python -m benchmarks probe`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe

SAMPLES = 32


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with batch norm, added to the input."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or channels != out:
            self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        h = functional.relu(self.bn2(self.conv2(h)), inplace=True)
        return functional.relu(self.bn3(self.conv3(h)) + self.skip(x), inplace=True)


def resnet50() -> nn.Sequential:
    """The shape of ResNet-50: 3, 4, 6 and 3 bottlenecks of width 64 to 512."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks: list[nn.Module] = []
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            blocks.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def deep_mlp(layers: int = 1000, width: int = 512) -> nn.Sequential:
    """Linear layers and ReLU at He's gain."""
    stack: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(width, width)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        stack += [linear, nn.ReLU()]
    return nn.Sequential(*stack)


def _case(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name == "resnet":
        return resnet50(), torch.randn(SAMPLES, 3, 64, 64)
    return deep_mlp(), torch.randn(SAMPLES, 512)


def _plain(model: nn.Module, batch: torch.Tensor) -> None:
    model.zero_grad()
    output = model(batch)
    output.backward(torch.randn_like(output))


def time_ratio(name: str, turns: int = 5) -> dict[str, float]:
    model, batch = _case(name)
    torch.set_num_threads(1)
    functions: list[Callable[[], object]] = [lambda: _plain(model, batch), lambda: probe(model, batch)]
    best = [float("inf")] * 2
    for turn in range(turns + 1):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            elapsed = time.process_time() - start
            if turn:
                best[i] = min(best[i], elapsed)
        model.zero_grad()
    return {"plain_seconds": best[0], "probe_seconds": best[1], "time_ratio": best[1] / best[0]}


def _peak(name: str, what: str) -> float:
    """Peak resident memory in MB of a process that does one thing."""
    done = subprocess.run([sys.executable, __file__, "--peak", name, what], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _measure_peak(name: str, what: str) -> None:
    # what is loaded on first use (the wrappers of torch's random numbers, linear algebra) is not the probe's own
    warm = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    probe(warm, torch.randn(4, 3, 8, 8))
    before = _high_water()
    model, batch = _case(name)
    if what == "plain":
        _plain(model, batch)
    else:
        probe(model, batch)
    print(_high_water() - before)


def _high_water() -> float:
    """Peak resident memory of this process in MB; the kernel's own number where it has one, since the other is
    inherited from the parent."""
    try:
        with open("/proc/self/status", encoding="utf-8") as lines:
            return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    from benchmarks.environment import show  # not needed by the measuring child, which runs this file alone

    results: dict[str, dict[str, float]] = {}
    for name, title in (("resnet", "ResNet-50 shape, 64×64 (time ≤ 1.5)"), ("mlp", "MLP 1000 × 512 (time ≤ 2)")):
        plain, probed = _peak(name, "plain"), _peak(name, "probe")
        memory = {"plain_peak_mb": plain, "probe_peak_mb": probed, "memory_ratio": probed / plain}
        results[title] = {**time_ratio(name), **memory}
    threads = torch.get_num_threads()
    show(f"torch {torch.__version__}, n = 32, {threads} thread(s)", results)
    return results


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        _measure_peak(*sys.argv[2:4])
