"""The convolutional networks of 003/table-3: their layers as printed, and training from two initial weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    from torch import nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets

PRINTED, PUBLIC = "iterative", "iterative, leading directions"
SCHEMES: dict[str, dict[str, Any]] = {  # options of iterative orthogonalisation
    "Xavier": {},
    PRINTED: {},
    PUBLIC: {"frame": "slice", "leading": True},  # 003's public code, which its figure 7 was made with
}
SHAPE = (3, 32, 32)  # of an image of CIFAR-10
BATCH = 256  # images from which the weights are set


def convolution_training_cell(
    configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None
) -> xarray.Dataset:
    """Train a network of `convolutions` convolutional and three linear layers.

    Keys: `scheme` (of `SCHEMES`), `convolutions`, `channels` (of the first, the second and all further ones),
    `hidden`, `gain` (on Xavier weights), `exponent`, `output_norm` (of iterative orthogonalisation; 0 for mean square
    1), `data`, `train` (images), `shrink`, `every`, `device`, those of a recipe; `run`, one or several.

    Returns:
        What `fit` returns, with `feature_gap`, the orthogonality gap of what the last convolution passes on.

    Example:
        >>> convolution_training_cell({"scheme": "He"}, 0)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown scheme 'He'; ...
    """
    import torch
    from torch import nn

    from isometer_papers.studies.cells.depth_training import mean_gaps
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    if c["scheme"] not in SCHEMES:
        raise unknown_name("scheme", c["scheme"], SCHEMES)
    sets = image_sets(c["data"], c["train"], 1, shrink=c["shrink"], centre="none", scale="unit")
    models = [deep_convolutions(c, sets, one) for one in seeds]
    flat = next(i for i, layer in enumerate(models[0]) if isinstance(layer, nn.Flatten))
    batches = torch.split(sets.inputs[: 4 * c["batch"]].to(c["device"]), c["batch"])

    def feature_gap(model: nn.Module) -> float:
        assert isinstance(model, nn.Sequential)
        return float(mean_gaps([model[:flat]], batches)[0])

    found = fit_together(
        models,
        [sets] * len(seeds),
        Recipe.of(c),
        seeds=seeds,
        measures=[{"feature_gap": feature_gap}] * len(seeds),
        every=c["every"],
        test=False,
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, found)


def deep_convolutions(c: Mapping[str, Any], sets: Sets, seed: int) -> nn.Sequential:
    """The network before training; iterative weights are those of square convolutions alone.

    Example:
        >>> from isometer_papers.training import Sets
        >>> import torch
        >>> sets = Sets(torch.zeros(1, *SHAPE), torch.zeros(1).long(), torch.zeros(1, *SHAPE), torch.zeros(1).long())
        >>> cell = {"scheme": "Xavier", "convolutions": 4, "channels": [2, 3, 4], "hidden": 8, "gain": 1.4}
        >>> len(list(deep_convolutions(cell, sets, 0).parameters()))
        14
    """
    import torch
    from torch import nn

    from isometer.init import iterative_orthogonalization_
    from isometer_papers.architectures import deep_alexnet

    first, second, third = c["channels"]
    model = deep_alexnet(
        sets.shape,
        sets.classes,
        convolutions=c["convolutions"],
        channels=(first, second, third),
        hidden=c["hidden"],
        init="xavier",
        seed=seed,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(c["gain"])  # biases are zero
    if c["scheme"] != "Xavier":
        chosen = np.random.default_rng(seed).permutation(len(sets.inputs))[:BATCH]
        iterative_orthogonalization_(
            model,
            sets.inputs[torch.from_numpy(chosen)],
            exponent=c["exponent"],
            output_norm=c["output_norm"] or None,
            seed=seed,
            **SCHEMES[c["scheme"]],
            layers=[name for name, layer in model.named_children() if isinstance(layer, nn.Conv2d)],
        )
    return model


def printed_rows(convolutions: int) -> list[str]:
    """The rows of 003/table-3 for the network of 20 or 80 layers.

    Example:
        >>> printed_rows(20)[3]
        '{Conv2d(256, 256) + ReLU} × 16'
    """
    repeats = {20: 16, 80: 76}
    if convolutions not in repeats:
        raise IsometerError(f"convolutions is {convolutions!r}; expected 20 or 80, which the table has")
    return [
        "Conv2d(3, 64) + MaxPool2d(2) + ReLU",
        "Conv2d(64, 192) + MaxPool2d(2) + ReLU",
        "Conv2d(192, 256) + Conv2d(256, 256) + ReLU",
        f"{{Conv2d(256, 256) + ReLU}} × {repeats[convolutions]}",
        "MaxPool2d(2) + ReLU",
        "Dropout(0.5) + Linear(1024, 4096) + ReLU",
        "Dropout(0.5) + Linear(4096, 4096) + ReLU",
        "Linear(4096, 10)",
    ]


def expanded(row: str) -> list[str]:
    """The layers of a row of the table, one by one.

    Example:
        >>> expanded("{Conv2d(8, 8) + ReLU} × 2")
        ['Conv2d(8, 8)', 'ReLU', 'Conv2d(8, 8)', 'ReLU']
    """
    inner, _, count = row.partition("}")
    return inner.removeprefix("{").split(" + ") * int(count.removeprefix(" × ") or 1)


def written(layer: nn.Module) -> str:
    """A layer as the table writes it.

    Example:
        >>> from torch import nn
        >>> written(nn.Conv2d(3, 64, 3)), written(nn.ReLU())
        ('Conv2d(3, 64)', 'ReLU')
    """
    from torch import nn

    kind = type(layer).__name__
    if isinstance(layer, nn.Conv2d):
        return f"{kind}({layer.in_channels}, {layer.out_channels})"
    if isinstance(layer, nn.Linear):
        return f"{kind}({layer.in_features}, {layer.out_features})"
    if isinstance(layer, nn.MaxPool2d):
        return f"{kind}({layer.kernel_size})"
    return f"{kind}({layer.p})" if isinstance(layer, nn.Dropout) else kind


def table_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The network of so many `convolutions`, row by row of the printed table, as PyTorch has it.

    Returns:
        By `row`: `agrees` (whether the layers are those printed), `parameters`, the smallest and largest `kernel` and
        `stride` of convolutions (0 if there are none), `channels` and `side` of what comes out; and `left`, layers that
        are in no row.

    Example:
        >>> int(table_cell({"convolutions": 20}, 0)["parameters"][-1])
        40970
    """
    import torch
    from torch import nn

    from isometer_papers.architectures import deep_alexnet

    network = deep_alexnet(SHAPE, 10, convolutions=configuration["convolutions"]).eval()
    layers = iter([layer for layer in network if not isinstance(layer, nn.Flatten)])
    signal = torch.zeros(1, *SHAPE)
    rows = []
    for row in printed_rows(configuration["convolutions"]):
        names = expanded(row)
        part = list(itertools.islice(layers, len(names)))
        with torch.no_grad():
            for layer in part:
                signal = layer(signal.flatten(1) if isinstance(layer, nn.Linear) else signal)
        rows.append({"agrees": [written(layer) for layer in part] == names, **_numbers(part, signal.shape[1:])})
    columns = {name: ("row", np.array([row[name] for row in rows])) for name in rows[0]}
    return xarray.Dataset({**columns, "left": len(list(layers))}, {"row": np.arange(len(rows))})


def _numbers(part: Sequence[nn.Module], shape: Sequence[int]) -> dict[str, int]:
    from torch import nn

    convolutions = [layer for layer in part if isinstance(layer, nn.Conv2d)]
    kernels = [size for layer in convolutions for size in layer.kernel_size] or [0]
    strides = [size for layer in convolutions for size in layer.stride] or [0]
    return {
        "parameters": sum(p.numel() for layer in part for p in layer.parameters()),
        "smallest_kernel": min(kernels),
        "largest_kernel": max(kernels),
        "smallest_stride": min(strides),
        "largest_stride": max(strides),
        "channels": shape[0],
        "side": shape[-1] if len(shape) > 1 else 1,
    }
