"""Grids as people write them: `width=64,128,256 activation=relu,leaky_relu(0.1) depth=10:100:10`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from isometer.errors import IsometerError, unknown_name

_FORMS = "a list 1,2,4, a range START:STOP:STEP, or log:START:STOP:COUNT"


def parse_axes(texts: Sequence[str], known: Collection[str]) -> dict[str, list[str]]:
    """Axes of a grid from `name=values` texts; values stay text, ranges are spelt out.

    - `width=64,128,256`: a list; commas inside parentheses belong to the value;
    - `depth=10:100:10`: a range with its end where a step meets it; `1:5` steps by 1;
    - `width=log:16:1024:7`: numbers at equal ratios, both ends included; whole ends give whole numbers.

    Args:
        texts: one or several of them.
        known: names that are allowed.

    Returns:
        Values by name, in the order given.

    Example:
        >>> parse_axes(["width=64,128", "activation=relu,leaky_relu(0.1)", "depth=log:1:100:3"], ["width", "activation",
        ...                                                                                        "depth"])
        {'width': ['64', '128'], 'activation': ['relu', 'leaky_relu(0.1)'], 'depth': ['1', '10', '100']}
    """
    axes: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not name:
            raise IsometerError(f"the grid has {text!r}; expected name=values — width=64,128,256, for example")
        if name not in known:
            raise unknown_name("key of the grid", name, sorted(known))
        if name in axes:
            raise IsometerError(f"the grid has {name!r} twice — put all its values in one list")
        parts = _split(values, text)
        if not parts:
            raise IsometerError(f"the grid has no values for {name!r}; expected {_FORMS}")
        axes[name] = [value for part in parts for value in _expanded(part)]
    if not axes:
        raise IsometerError("the grid is empty; expected at least one axis — give --grid width=64,128,256, for example")
    return axes


def _split(values: str, text: str) -> list[str]:
    """At commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(values):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(values[start:i])
            start = i + 1
    if depth != 0:
        raise IsometerError(f"the grid has {text!r}, whose parentheses do not match — close them")
    parts.append(values[start:])
    return [part.strip() for part in parts if part.strip()]


def _expanded(part: str) -> list[str]:
    pieces = part.split(":")
    if pieces[0] == "log":
        return _log_range(part, pieces[1:])
    try:
        numbers = [float(piece) for piece in pieces]
    except ValueError:
        return [part]  # a colon may belong to the value: correlated:0.9
    if len(numbers) == 1:
        return [part]
    if len(numbers) > 3 or not all(math.isfinite(number) for number in numbers):
        raise IsometerError(f"the range {part!r} has {len(numbers)} parts; expected START:STOP or START:STOP:STEP")
    start, stop = numbers[:2]
    step = numbers[2] if len(numbers) == 3 else 1.0
    if step == 0 or (stop - start) / step < 0:
        raise IsometerError(f"the range {part!r} never reaches its end — change the sign or size of the step")
    # 0:0.3:0.1 reaches its end although 0.3/0.1 rounds below 3
    count = math.floor((stop - start) / step + 1e-9) + 1
    _check_count(count, part)
    return [_text(start + i * step, pieces) for i in range(count)]


def _log_range(part: str, pieces: list[str]) -> list[str]:
    try:
        start, stop, count = float(pieces[0]), float(pieces[1]), int(pieces[2])
        fine = len(pieces) == 3 and start > 0 and stop > 0 and count >= 2 and math.isfinite(start * stop)
    except (ValueError, IndexError):
        fine = False
    if not fine:
        raise IsometerError(f"the grid has {part!r}; expected log:START:STOP:COUNT with positive ends — log:16:1024:7")
    _check_count(count, part)
    inner = [start * (stop / start) ** (i / (count - 1)) for i in range(1, count - 1)]
    # the ends as given, not as powers round them
    values = [start, *inner, stop]
    whole = all(_is_whole(piece) for piece in pieces[:2])
    texts = [str(round(value)) if whole else f"{value:.12g}" for value in values]
    return list(dict.fromkeys(texts))  # rounding to whole numbers may repeat some


def _check_count(count: int, part: str) -> None:
    if count > 100_000:
        raise IsometerError(f"the range {part!r} has {count} values; expected at most 100000 — take larger steps")


def _text(value: float, pieces: list[str]) -> str:
    return str(round(value)) if all(_is_whole(piece) for piece in pieces) else f"{value:.12g}"


def _is_whole(piece: str) -> bool:
    return piece.strip().lstrip("+-").isdigit()
