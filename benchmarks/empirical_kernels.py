"""Tangent kernels of models, against the recipes of torch.func and against nngeometry, where they run.

Each way calculates the kernel of the same model on the same batch, summed over outputs, in evaluation mode: the others
do not know batch norm in training mode. nngeometry gives the kernel of all outputs, so it is compared with ours of all
outputs. Every way has a process of its own: processor time on one thread, the shorter of two turns, and peak memory of
the first turn above what torch and the model take. nngeometry is measured where it is installed.

Run with `python -m benchmarks empirical_kernels`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from isometer import empirical_kernel

Tensor = torch.Tensor


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions with batch norm, added to the input."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or channels != width:
            self.skip = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(h)) + self.skip(x))


class TransformerBlock(nn.Module):
    """Causal attention and a perceptron, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = (one.view(n, t, self.heads, -1).transpose(1, 2) for one in self.project(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.back(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.outer(functional.gelu(self.inner(self.norm2(x))))


class SmallGPT(nn.Module):
    """Four blocks of width 128 over tokens; ten classes from the last position."""

    def __init__(self, width: int = 128, blocks: int = 4, length: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, 4) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(h))[:, -1])


def resnet18() -> nn.Sequential:
    """The shape of ResNet-18 for images of 32 × 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for stage in range(4):
        for block in range(2):
            layers.append(ResidualBlock(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def mlp() -> nn.Sequential:
    """Four linear layers, three of them 512 wide."""
    layers: list[nn.Module] = []
    for features in (256, 512, 512):
        layers += [nn.Linear(features, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def _case(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    if name == "mlp":
        return mlp().eval(), torch.randn(32, 256)
    if name == "resnet":
        return resnet18().eval(), torch.randn(4, 3, 32, 32)
    if name in ("gpt", "gpt-32"):
        return SmallGPT().eval(), torch.randint(0, 256, (32 if name == "gpt-32" else 8, 32))
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(2, 3)


def ours(model: nn.Module, batch: Tensor) -> Any:
    return torch.from_numpy(empirical_kernel(model, batch, mode="eval").matrix)


def ours_full(model: nn.Module, batch: Tensor) -> Any:
    return torch.from_numpy(empirical_kernel(model, batch, mode="eval", outputs="full").matrix)


def _single(model: nn.Module) -> tuple[dict[str, Tensor], Callable[[dict[str, Tensor], Tensor], Tensor]]:
    """Parameters, and the outputs of one sample as a function of them."""
    parameters = {name: one.detach() for name, one in model.named_parameters()}
    return parameters, lambda given, x: functional_call(model, given, (x[None],))[0]


def contraction(model: nn.Module, batch: Tensor) -> Any:
    """torch.func: Jacobians of all samples, then their products."""
    parameters, single = _single(model)
    found = vmap(jacrev(single), (None, 0))(parameters, batch)
    rows = [one.flatten(2) for one in found.values()]
    return sum(torch.einsum("ncp,mcp->nm", one, one) for one in rows)


def vector_products(model: nn.Module, batch: Tensor) -> Any:
    """torch.func: for each pair of samples, one backward product and one forward product for each output."""
    parameters, single = _single(model)

    def pair(x: Tensor, y: Tensor) -> Tensor:
        outputs, pull = vjp(lambda given: single(given, x), parameters)

        def along(cotangent: Tensor) -> Tensor:
            return jvp(lambda given: single(given, y), (parameters,), pull(cotangent))[1]

        return torch.trace(vmap(along)(torch.eye(len(outputs))))

    # One pair at a time: a stack of pairs would hold a gradient for each. Fused attention has no forward products.
    with sdpa_kernel(SDPBackend.MATH):
        return vmap(vmap(pair, (None, 0), chunk_size=1), (0, None), chunk_size=1)(batch, batch)


def nngeometry(model: nn.Module, batch: Tensor) -> Any:
    """The Gram matrix of all outputs by nngeometry's hooks."""
    from nngeometry.gram import GramMatrix  # type: ignore[import-not-found]

    labels = torch.zeros(len(batch), dtype=torch.long)
    examples = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(batch, labels), batch_size=len(batch))
    found = GramMatrix(model, examples, function=lambda x, _: model(x)).data
    return found.permute(1, 0, 3, 2)


WAYS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "ours": ours,
    "contraction": contraction,
    "vector_products": vector_products,
    "ours_full": ours_full,
    "nngeometry": nngeometry,
}


def _measured(way: str, name: str) -> tuple[float, float, Tensor]:
    """Seconds, peak resident memory in MB and the kernel, of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kernel.pt"
        words = [sys.executable, "-W", "ignore", "-m", __name__, way, name, str(kept)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        seconds, peak = map(float, done.stdout.split()[-2:])
        return seconds, peak, torch.load(kept)


def _measure(way: str, name: str, kept: str) -> None:
    from benchmarks.probe import _high_water

    torch.set_num_threads(1)
    WAYS[way](*_case("warm"))  # what is loaded on first use is nobody's own
    model, batch = _case(name)
    before = _high_water()
    seconds = []
    for turn in range(1 if way == "vector_products" else 2):
        start = time.process_time()
        found = WAYS[way](model, batch)
        seconds.append(time.process_time() - start)
        if not turn:
            peak = _high_water() - before
    torch.save(found.detach().clone(), kept)
    print(min(seconds), peak)


TITLES = {
    "mlp": "MLP 3 × 512, 32 samples",
    "resnet": "ResNet-18 shape, 4 samples",
    "gpt": "small GPT, 8 samples",
    "gpt-32": "small GPT, 32 samples",
}
_LONG = {("vector_products", "gpt-32")}  # products for every pair of samples would take minutes: not measured


def run(names: tuple[str, ...] = tuple(TITLES)) -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    from benchmarks.environment import show

    torch.set_num_threads(1)
    ways = [way for way in WAYS if way != "nngeometry" or importlib.util.find_spec("nngeometry") is not None]
    results: dict[str, dict[str, float]] = {}
    for name in names:
        row = results[TITLES[name]] = {}
        kernels: dict[str, Tensor] = {}
        for way in ways:
            if (way, name) in _LONG:
                continue
            try:
                row[f"{way}_seconds"], row[f"{way}_peak_mb"], kernels[way] = _measured(way, name)
            except RuntimeError as problem:  # a way that does not run this model has no numbers
                print(f"{way} does not run {name}: {str(problem)[:200]}", file=sys.stderr, flush=True)
                continue
            print(name, way, row[f"{way}_seconds"], row[f"{way}_peak_mb"], file=sys.stderr, flush=True)
        for way in ("contraction", "vector_products"):
            _compare(row, way, "ours")
        _compare(row, "nngeometry", "ours_full")
        for way, found in kernels.items():
            same = kernels["ours_full" if found.dim() == 4 else "ours"]
            row[f"{way}_difference"] = float((found - same).abs().max() / same.abs().max())
    show(f"torch {torch.__version__}, float32, one thread", results)
    return results


def _compare(row: dict[str, float], way: str, mine: str) -> None:
    """How many times as long and as much memory another way takes."""
    if f"{way}_peak_mb" in row:
        row[f"{way}_time_ratio"] = row[f"{way}_seconds"] / row[f"{mine}_seconds"]
        row[f"{way}_memory_ratio"] = row[f"{way}_peak_mb"] / row[f"{mine}_peak_mb"]


if __name__ == "__main__":
    _measure(*sys.argv[1:4])
