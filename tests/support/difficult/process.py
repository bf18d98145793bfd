"""Models that write to what the whole process shares."""

from __future__ import annotations

import gc
import os
import random

import numpy as np
import torch

from support.difficult.subject import WIDTH, Part, Tensor, step

P = "process"


@step(P)
def draws(p: Part, h: Tensor) -> Tensor:
    return h + 0.1 * torch.randn(WIDTH).to(h.dtype)


@step(P)
def drops_out(p: Part, h: Tensor) -> Tensor:
    return torch.nn.functional.dropout(h, 0.5, training=True)


@step(P)
def seeds(p: Part, h: Tensor) -> Tensor:
    torch.manual_seed(p.calls)
    return h + 0.1 * torch.rand(WIDTH).to(h.dtype)


@step(P)
def draws_from_numpy(p: Part, h: Tensor) -> Tensor:
    return h + 0.1 * float(np.random.standard_normal())  # noqa: NPY002


@step(P)
def seeds_numpy(p: Part, h: Tensor) -> None:
    np.random.seed(5)  # noqa: NPY002


@step(P)
def draws_from_python(p: Part, h: Tensor) -> Tensor:
    return h + 0.1 * random.random()


@step(P)
def sets_default_dtype(p: Part, h: Tensor) -> None:
    torch.set_default_dtype(torch.float64)


@step(P)
def turns_gradients_off(p: Part, h: Tensor) -> None:
    torch.set_grad_enabled(False)


@step(P, changes=False)
def without_gradients_inside(p: Part, h: Tensor) -> Tensor:
    with torch.no_grad():
        scale = h.std() + 1
    return h / scale


@step(P, changes=False)
def inference_inside(p: Part, h: Tensor) -> Tensor:
    with torch.inference_mode():
        scale = float(h.std() + 1)
    return h / scale


@step(P)
def inference_tensor_kept(p: Part, h: Tensor) -> None:
    with torch.inference_mode():
        p.tensor = h.detach() * 2


@step(P)
def sets_anomaly_mode(p: Part, h: Tensor) -> None:
    torch.set_anomaly_enabled(not torch.is_anomaly_enabled())


@step(P)
def sets_determinism(p: Part, h: Tensor) -> None:
    torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled())


@step(P)
def turns_collection(p: Part, h: Tensor) -> None:
    if gc.isenabled():
        gc.disable()
    else:
        gc.enable()


@step(P)
def sets_the_environment(p: Part, h: Tensor) -> None:
    os.environ["ISOMETER_TEST_OF_PROBING"] = str(p.calls)


@step(P, changes=False)
def autocast_inside(p: Part, h: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.float16, enabled=h.dtype is torch.float32):
        return h + torch.tanh(h)


@step(P)
def enters_a_mode(p: Part, h: Tensor) -> None:
    torch.set_default_device("cpu")


@step(P)
def patches_torch(p: Part, h: Tensor) -> None:
    original = torch.nn.functional.silu
    torch.nn.functional.silu = lambda x, inplace=False: original(x)
