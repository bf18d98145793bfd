"""What a probe did not look at, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn

from isometer.doctor.probe._module_stack import Frames

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)

TRANSFORMED = "runs under a transform of torch.func (vmap, grad), whose tensors have no numbers to read"
NESTED = "computes with a nested tensor, whose samples have different sizes"
RECURRENT = "runs its time steps in one operation: what happens between them is not read"
FUSED = "runs its attention in one operation whose scores are not calculated again"
COMPILED = "is compiled: what happens inside is not announced"
CUSTOM = "is a custom function: what happens inside is not read"
_NEVER = "was not called"
_UNUSED = "is used by no operation that was seen"


@dataclass(frozen=True)
class Unseen:
    """A part of a model that was not examined.

    Example:
        >>> from isometer.doctor import probe
        >>> class Model(nn.Module):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.used, self.forgotten = nn.Linear(2, 2), nn.Linear(2, 2)
        ...     def forward(self, x: torch.Tensor) -> torch.Tensor:
        ...         return self.used(x)
        >>> probe(Model(), torch.eye(2)).unseen
        (Unseen(name='forgotten', why='was not called'),)

    Attributes:
        name: name of the module, the parameter or the function.
        why: what kept the probe from it, as the rest of a sentence that begins with the name.
    """

    name: str
    why: str


def unseen(model: nn.Module, frames: Frames, noted: Collection[tuple[str, str]], used: Collection[int]) -> list[Unseen]:
    """Everything that a pass did not look at: what was noted on the way, modules not called, parameters not used.

    Args:
        model: what ran.
        frames: its modules, as they were called.
        noted: names and reasons, from the pass.
        used: identities of parameters that took part.
    """
    found = [Unseen(name, why) for name, why in noted]
    idle = {id(parameter) for parameter in model.parameters()} - set(used)
    silent: list[str] = []  # modules under which nothing more is listed
    for path, module in model.named_modules():
        if any(path.startswith(outer) for outer in silent):
            continue
        if isinstance(module, torch.jit.ScriptModule):
            found.append(Unseen(frames.name(path), COMPILED))
            silent.append(f"{path}." if path else "")
        elif id(module) not in frames.called and not isinstance(module, _CONTAINERS):
            own = [id(parameter) for parameter in module.parameters()]
            # What holds weights that others apply, as the projection inside nn.MultiheadAttention, took part.
            if not own or any(key in idle for key in own):
                found.append(Unseen(frames.name(path), _NEVER))
                silent.append(f"{path}." if path else "")
    for path, parameter in model.named_parameters():
        if id(parameter) in idle and not any(path.startswith(outer) for outer in silent):
            found.append(Unseen(frames.name(path), _UNUSED))
    return found
