"""Fixup: residual networks without normalisation, by scaled branches that start at zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from isometer.errors import IsometerError
from isometer.init._outcome import InitOutcome
from isometer.init._targets import WeightTarget, normals, targets, unwrapped

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)


def fixup_(
    model: nn.Module,
    blocks: str | Sequence[str],
    *,
    classifier: str | None = None,
    shortcuts: str | Sequence[str] = ("*shortcut*", "*downsample*"),
    seed: int = 0,
) -> InitOutcome:
    """Fixup initialisation of a residual network with L branches of m weight layers each.

    He weights everywhere (variance 2/fan_in); those of a branch times `L^{−1/(2m−2)}`; the last layer of every branch
    and the classifier zero. A branch starts as zero, so the network starts as its skip connections. Biases of all these
    layers are zero. The scalar biases and multipliers of the paper are parameters that the model must have itself.

    Args:
        model: the model.
        blocks: patterns of the names of the modules that hold one residual branch each, `"layers.*"`.
        classifier: name of the last layer; by default the last one outside the blocks, if it comes after them.
        shortcuts: patterns of names within a block that are not part of the branch.
        seed: seed of the draw.

    Returns:
        What was done; `factor` is what the He weights were multiplied by.

    Raises:
        IsometerError: no module has such a name, a block holds no weights, or as `haar_orthogonal_`.

    Example:
        >>> block = lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        >>> model = nn.ModuleDict({"blocks": nn.ModuleList([block() for _ in range(4)]), "head": nn.Linear(8, 2)})
        >>> [layer.numbers["factor"] for layer in fixup_(model, "blocks.?").layers]
        [0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0]

    Implements: 004/init-fixup.
    """
    found, skipped = targets(model)
    model = unwrapped(model)
    patterns = [blocks] if isinstance(blocks, str) else list(blocks)
    aside = [shortcuts] if isinstance(shortcuts, str) else list(shortcuts)
    branches = _branches(model, found, patterns, aside)
    factors = dict.fromkeys((t.name for t in found), 1.0)
    for branch in branches:
        depth = len(branch)
        # the exponent has no value for m = 1, where the only layer is the last, which is zero
        scale = len(branches) ** (-1 / (2 * depth - 2)) if depth > 1 else 0.0
        factors.update({t.name: scale for t in branch[:-1]})
        factors[branch[-1].name] = 0.0
    if classifier is None:
        within = {t.name for branch in branches for t in branch}
        classifier = found[-1].name if found[-1].name not in within and not _matches(found[-1].name, aside) else None
    elif classifier not in factors:
        raise IsometerError(
            f"classifier is {classifier!r}; expected the name of a linear layer — {found[-1].name!r}, for example"
        )
    if classifier is not None:
        factors[classifier] = 0.0
    for index, t in enumerate(found):
        factor = factors[t.name]
        t.write(normals(t.matrices, seed, index) * (factor * math.sqrt(2 / t.fan_in)))
        if t.bias is not None:
            t.bias.data.zero_()  # autograd refuses to change a leaf in place
    left = tuple(
        (name, "a normalisation, which Fixup is meant to replace")
        for name, module in model.named_modules()
        if isinstance(module, _NORMS)
    )
    return InitOutcome("fixup", tuple(t.outcome(factor=factors[t.name]) for t in found), (*skipped, *left))


def _branches(
    model: nn.Module, found: Sequence[WeightTarget], patterns: Sequence[str], aside: Sequence[str]
) -> list[list[WeightTarget]]:
    """The weight layers of each branch; of nested matches the outermost counts."""
    names = [name for name, _ in model.named_modules() if name and _matches(name, patterns)]
    outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    if not outer:
        raise IsometerError(
            f"no module has a name like {', '.join(patterns)}; expected the residual blocks — names are in "
            "model.named_modules()"
        )
    branches = []
    for name in outer:
        inside = [t for t in found if t.name == name or t.name.startswith(f"{name}.")]
        branch = [t for t in inside if not _matches(t.name.removeprefix(f"{name}."), aside)]
        if not branch:
            raise IsometerError(f"block {name!r} holds no linear layer or convolution; expected a residual branch")
        branches.append(branch)
    return branches


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
