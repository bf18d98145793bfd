"""Specs from text, steps, fields and JSON: a `Chain` wherever the network is one layer repeated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer.files import read_regular
from isometer.spec._chain import Chain
from isometer.spec._chain_form import chain_fields
from isometer.spec._checks import SpecError, whole
from isometer.spec._composition import Composition
from isometer.spec._parser import parse_network
from isometer.spec._program import Shape
from isometer.spec._record import spec_fields
from isometer.spec._spec import READERS, Spec
from isometer.spec._steps import STEPS, Step, checked_steps

DEFAULT_WIDTH = 100
"""Features of the input of a network that does not say."""


def spec_from(*given: Any, **options: Any) -> Spec:
    """What `Spec(…)` returns."""
    if not given or _is_width(given[0]):
        return Chain(*given, **options)
    if len(given) > 1:
        raise SpecError(f"Spec got {len(given)} networks; expected one — pass one text or one list of steps")
    network = given[0]
    extra = sorted(options.keys() - {"width", "positions"})
    if extra:
        names = ", ".join(field.name for field in fields(Chain))
        raise SpecError(
            f"Spec got a network and {extra[0]}; expected width and positions beside it — the fields of a chain "
            f"({names}) go without a network"
        )
    if isinstance(network, Spec):
        return network
    if isinstance(network, str):
        steps, shape = parse_network(network)
    elif isinstance(network, (Sequence, *STEPS)):
        steps, shape = checked_steps(network, "the network"), None
    else:
        raise SpecError(
            f"the network is {network!r}; expected text, steps or a Spec — pass Spec(\"dense > act('relu')\", width=64)"
        )
    return spec_of_steps(steps, _shape(shape, **options))


def _is_width(given: Any) -> bool:
    """Whether this is the first field of a chain: a width, or one per layer."""
    first = given[0] if isinstance(given, Sequence) and given and not isinstance(given, str) else given
    return isinstance(first, int | float | np.number)


def _shape(said: Shape | None, width: int | None = None, positions: Sequence[int] | int = ()) -> Shape:
    axes = (positions,) if isinstance(positions, int) else tuple(positions)
    if said is not None:
        if width not in (None, said.width) or (axes and axes != said.axes):
            raise SpecError(
                f"the network has an input of {said.width} features, and width={width} is given; expected one of them"
            )
        width, axes = said.width, said.axes
    found = whole(DEFAULT_WIDTH if width is None else width, "width", "pass the features of the input")
    if len(axes) > 2:
        raise SpecError(f"the input has {len(axes)} axes of positions; expected none, one or two")
    return Shape(found, tuple(whole(one, "positions", "pass the sizes of the axes") for one in axes))


def spec_of_steps(steps: Sequence[Step], shape: Shape) -> Spec:
    """The spec of these steps, a `Chain` if it is one layer repeated.

    Example:
        >>> from isometer.spec._steps import Act, Dense
        >>> spec_of_steps((Dense(), Act("relu")), Shape(8)).depth
        1
    """
    composition = Composition(tuple(steps), shape)
    found = chain_fields(composition.steps, shape) or chain_fields(composition.normal_form, shape)
    return composition if found is None else Chain(**found)


def spec_from_json(text: str | bytes) -> Spec:
    """What `Spec.from_json` returns."""
    found = spec_fields(text)
    if "network" in found:
        if len(found) > 1:
            raise SpecError("the spec has a network and fields of a chain; expected one of them")
        return spec_from(found["network"])
    return Chain(**found)


class OldSpecWarning(UserWarning):
    """A file has the fields of a chain, as specs had before networks were written as text; the message has the text.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", OldSpecWarning)  # where old files are expected
    """


def read_spec(path: str | Path) -> Spec:
    """The spec in a JSON file: an object with the `network` as text, or with the fields of a chain.

    Args:
        path: path of the file.

    Returns:
        The spec. An `OldSpecWarning` shows the fields of a chain as a network.

    Raises:
        SpecError: the file holds no spec.
        IsometerError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "net.json"
        ...     _ = file.write_text('{"network": "input(4) > dense > dense(2)"}')
        ...     print(read_spec(file))
        input(4) > dense(4) > dense(2)
    """
    try:
        text = read_regular(Path(path))
    except OSError as problem:
        raise IsometerError(f"cannot read the spec {str(path)!r}: {problem.strerror}") from problem
    spec = spec_from_json(text)
    if "network" not in spec_fields(text):
        words = f"{path} has the fields of a chain, the older form of a spec; as a network it reads {spec}"
        warnings.warn(words, OldSpecWarning, stacklevel=2)
    return spec


READERS.update(python=spec_from, json=spec_from_json)
