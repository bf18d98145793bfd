"""What models change in the whole process, put back between two of them."""

from __future__ import annotations

import gc
import os
import random
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn import functional
from torch.nn.modules import module as torch_module

_TABLES = tuple(name for name in vars(torch_module) if name.startswith("_global_") and name.endswith("_hooks"))


@contextmanager
def surroundings() -> Iterator[None]:
    """Run something that may leave the process in any state, without warnings, and put the process back."""
    silu, collects, environment = functional.silu, gc.isenabled(), dict(os.environ)
    dtype, threads, gradients = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    generators = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 — models use it
    depth = torch._C._len_torch_function_stack()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.signal(signal.SIGINT, handler)
        while torch._C._len_torch_function_stack() > depth:
            torch._C._pop_torch_function_stack()
        torch.set_default_device(None)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        torch.set_anomaly_enabled(False)
        torch.use_deterministic_algorithms(False)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        functional.silu = silu
        (gc.enable if collects else gc.disable)()
        for table in _TABLES:
            hooks = getattr(torch_module, table)
            if hooks:
                hooks.clear()
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        torch.set_rng_state(generators[0])
        np.random.set_state(generators[1])  # noqa: NPY002
        random.setstate(generators[2])
