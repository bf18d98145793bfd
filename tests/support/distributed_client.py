"""One of two processes that train and watch a model together: `python distributed_client.py KIND RANK PORT FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from isometer.doctor.watch import SignalMonitor

STEPS, SAMPLES = 6, 8


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one process; they differ in scale."""
    draw = torch.Generator().manual_seed(100 * step + rank)
    x = (1 + rank) * torch.randn(SAMPLES, 8, generator=draw)
    return x, (x[:, 0] > 0).long()


def main(kind: str, rank: int, port: str, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    model: nn.Module = plain()
    if kind == "fsdp":
        for module in model:  # type: ignore[attr-defined]
            if isinstance(module, nn.Linear):
                fully_shard(module)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    metrics = ["rms", "max_abs", "dead_fraction"]
    log = str(Path(folder) / "signal.csv")
    watched = kind != "bare"
    monitor = SignalMonitor(model, optimizer, budget=None, metrics=metrics, log=log) if watched else None
    for step in range(STEPS):
        x, y = batch(rank, step)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if monitor is not None:
            monitor.step(loss)
    told = {"weights": [_whole(one).flatten().tolist() for one in model.parameters()]}
    if monitor is not None:
        history = monitor.history
        tables = [*metrics, "loss", "weight_norm", "update_ratio", "gradient_norm"]
        told |= {"history": {name: history[name].values.tolist() for name in tables}, "steps": monitor.steps}
        told["complaints"] = sorted(monitor._complained)
        told["names"] = history["name"].values.tolist()
    (Path(folder) / f"{kind}-{rank}.json").write_text(json.dumps(told))
    distributed.destroy_process_group()


def _whole(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.full_tensor().detach() if hasattr(parameter, "full_tensor") else parameter.detach()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
