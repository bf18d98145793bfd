"""Two processes on CPU that train one model: numbers of both, one writer, the same training as without a monitor."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from support import distributed_client
from support.distributed_client import STEPS, batch, plain

pytestmark = pytest.mark.slow


def trained(kind: str, folder: Path) -> list[dict[str, Any]]:
    """What both processes found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    call = [sys.executable, distributed_client.__file__, kind]
    # The client imports torch and isometer as this process does.
    paths = os.pathsep.join(path for path in sys.path if path)
    both = [
        subprocess.Popen([*call, str(rank), port, str(folder)], env={**os.environ, "PYTHONPATH": paths})
        for rank in range(2)
    ]
    assert [one.wait(timeout=300) for one in both] == [0, 0]
    return [json.loads((folder / f"{kind}-{rank}.json").read_text()) for rank in range(2)]


def after_one_step() -> tuple[nn.Sequential, list[torch.Tensor]]:
    """The same step in one process, and the batches."""
    model = plain()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    batches = [batch(rank, 0) for rank in range(2)]
    (sum(functional.cross_entropy(model(x), y) for x, y in batches) / 2).backward()
    optimizer.step()
    return model, [x for x, _ in batches]


def along(model: nn.Sequential, x: torch.Tensor) -> list[torch.Tensor]:
    found = [x]
    for module in model:
        found.append(module(found[-1]))
    return found


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes(kind: str, tmp_path: Path) -> None:
    first, second = trained(kind, tmp_path)
    assert first["complaints"] == second["complaints"] == []
    assert first["history"] == second["history"]  # reduced over both, the loss among them
    model, batches = after_one_step()
    with torch.no_grad():
        passes = [along(model, x) for x in batches]
    rms = np.mean([[float(one.square().mean().sqrt()) for one in some] for some in passes], axis=0)
    largest = np.max([[float(one.abs().max()) for one in some] for some in passes], axis=0)
    np.testing.assert_allclose(first["history"]["rms"][0], rms, rtol=1e-5)
    np.testing.assert_allclose(first["history"]["max_abs"][0], largest, rtol=1e-5)
    begun = [float(one.detach().norm()) for one in plain().parameters()]
    np.testing.assert_allclose(first["history"]["weight_norm"][0], begun, rtol=1e-5)  # of all shards together
    bare = trained("bare", tmp_path)[0]
    for watched, alone in zip(first["weights"], bare["weights"], strict=True):
        if kind == "ddp":
            assert watched == alone
        else:  # sharded gradients are summed in another order
            np.testing.assert_allclose(watched, alone, rtol=1e-5, atol=1e-7)
    rows = list(csv.reader((tmp_path / "signal.csv").read_text().splitlines()))[1:]
    assert len({(step, name) for step, name, _ in rows}) == len(rows)  # one writer
    assert {int(step) for step, _, _ in rows} == set(range(1, STEPS + 1))
