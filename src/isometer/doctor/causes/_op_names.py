"""What a torch function is called, the same for all spellings of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_SPELLINGS = {
    "multiply": "mul",
    "rmul": "mul",
    "imul": "mul",
    "truediv": "div",
    "itruediv": "div",
    "idiv": "div",
    "divide": "div",
    "true_divide": "div",
    "rtruediv": "rdiv",
    "radd": "add",
    "iadd": "add",
    "isub": "sub",
    "subtract": "sub",
    "rmatmul": "matmul",
    "clip": "clamp",
    "fix": "trunc",
    "set_grad_enabled": "no_grad",
    "special_softmax": "softmax",
    "special_expit": "sigmoid",
    "expit": "sigmoid",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
}


def op_name(function: Any) -> str:
    """What a torch function is called, the same for all spellings of it.

    Example:
        >>> import torch
        >>> op_name(torch.Tensor.mul_), op_name(torch.multiply), op_name(torch.Tensor.data.__get__)
        ('mul', 'mul', 'data')
    """
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        return getattr(function.__self__, "__name__", "")
    return _plain(name)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    plain = name.strip("_")
    return _SPELLINGS.get(plain, plain)
