"""Input batches by name: synthetic ones, real images, and arrays from files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.checks import MOST_RUNS, WIDEST, seed_number, whole_number
from isometer.data import _synthetic as synthetic
from isometer.data._arrays import SUFFIXES, read_numbers
from isometer.data._catalog import CATALOG
from isometer.data._datasets import source_from_text
from isometer.errors import IsometerError
from isometer.work import check_batch

Floats = NDArray[np.float64]
SAMPLES = 10
"""Samples of a batch of which nobody said how many it has."""
_KINDS = (
    "gaussian, orthogonal, correlated:COSINE, collinear:ANGLE, degenerate:DISTINCT, power-law:EXPONENT, data:NAME or "
    "the path of a .npy, .npz, .csv or .safetensors file[:scale=norm]"
)
_ARGUMENTS = {"correlated": "cosine", "collinear": "angle", "degenerate": "distinct", "power-law": "exponent"}
_GENERATORS: dict[str, Callable[..., Floats]] = {
    "gaussian": synthetic.gaussian,
    "orthogonal": synthetic.orthogonal,
    "correlated": synthetic.correlated,
    "collinear": synthetic.near_collinear,
    "degenerate": synthetic.repeated,
    "power-law": synthetic.power_law,
}


def make_batch(
    kind: str, samples: int | None = None, features: int | None = None, *, seed: int = 0, runs: int | None = None
) -> Floats:
    """An input batch by name; samples have mean square 1 on average, length √features.

    - `gaussian`: independent standard normals;
    - `orthogonal`: orthogonal samples of length √features; with more samples than features, orthogonal features;
    - `correlated:COSINE`: lengths √features and the same cosine between any two samples, exactly (as many features as
      samples at least, cosine from −1/(n − 1) to 1);
    - `collinear:ANGLE`: lengths √features, every sample at ANGLE radians from one direction;
    - `degenerate:DISTINCT`: Gaussian samples of which only the first DISTINCT differ, repeated in turn;
    - `power-law:EXPONENT`: eigenvalues k^(−EXPONENT) of the Gram matrix, up to a factor;
    - a data set, `NAME`, `data:NAME` or `data:NAME:centre=pixel,scale=unit`: random images of a data set of this
      computer, flattened, standardised by channel unless told otherwise (`isometer.data.source_from_text`). They have
      their own number of features, whatever `features` says: give the network `input_width=batch.shape[-1]`;
    - a path: the only array in a `.npy`, `.npz`, `.csv` or `.safetensors` file, `samples` rows of it if given;
      `FILE:scale=norm` scales every sample to mean square 1.

    Args:
        kind: one of these.
        samples: n.
        features: d.
        seed: seed of the draw.
        runs: draw one batch per run; a run's batch does not depend on how many there are.

    Returns:
        `(n, d)`, or `(runs, n, d)`.

    Example:
        >>> batch = make_batch("correlated:0.8", 4, 10)
        >>> (batch @ batch.T / 10).round(12)[0].tolist()
        [1.0, 0.8, 0.8, 0.8]

    Implements: the data-free substitutes of 001 (a, b) and of 001/fig-6.2.
    """
    seed = seed_number(seed)
    kind = f"data:{kind}" if kind in CATALOG else kind
    copies = 1 if runs is None else whole_number(runs, "runs", high=MOST_RUNS, fix="pass the number of networks")
    if kind.startswith("data:"):
        draw = _images(kind.removeprefix("data:"), _whole(samples, "samples"))
    elif (file := file_source(kind)) is not None:
        return _from_file(*file, samples, features)
    else:
        n, d = _whole(samples, "samples"), _whole(features, "features")
        check_batch(n, d, copies)
        draw = _synthetic(kind, n, d)
    if runs is None:
        return draw(np.random.default_rng(np.random.SeedSequence(seed)))
    spawned = [np.random.SeedSequence(seed, spawn_key=(run,)) for run in range(runs)]
    return np.stack([draw(np.random.default_rng(s)) for s in spawned])


def batch_for(width: int, axes: tuple[int, ...] = (), kind: str | None = None, *, seed: int = 0) -> Floats:
    """Ten samples for a network, by name, Gaussian unless named; a file or a data set has its own number.

    Args:
        width: features that the network takes.
        axes: sizes of its axes of positions.
        kind: as for `make_batch`.
        seed: seed of the draw.

    Returns:
        `(n, width, *axes)`.

    Example:
        >>> batch_for(8).shape, batch_for(3, (4, 4), "correlated:0.5").shape
        ((10, 8), (10, 3, 4, 4))
    """
    kind = "gaussian" if kind is None else kind
    own = file_source(kind) is not None
    drawn = make_batch(kind, None if own else SAMPLES, None if own else width * math.prod(axes), seed=seed)
    fits = drawn.ndim == 2 and drawn.shape[1] == width * math.prod(axes)
    return drawn.reshape(len(drawn), width, *axes) if fits else drawn


def _whole(value: int | None, what: str) -> int:
    return whole_number(value, what, high=WIDEST, fix=f"pass {what}=…")


def _synthetic(kind: str, n: int, d: int) -> Callable[[np.random.Generator], Floats]:
    name, colon, text = kind.partition(":")
    argument = _ARGUMENTS.get(name)
    if name not in _GENERATORS or (colon and argument is None):
        raise IsometerError(f"input is {kind!r}; expected {_KINDS} — correct it")
    options: dict[str, float] = {}
    if argument is not None:
        try:
            options[argument] = float(text)
        except ValueError:
            raise IsometerError(
                f"input is {kind!r}; expected a number after the colon — correlated:0.8, for example"
            ) from None
    return lambda rng: _GENERATORS[name](n, d, rng, **options)


def _images(text: str, n: int) -> Callable[[np.random.Generator], Floats]:
    data, options = source_from_text(text)

    def draw(rng: np.random.Generator) -> Floats:
        drawn = data.batch(n, seed=rng, flat=True, **options)[0].astype(np.float64)
        return _unit_squares(drawn) if options.get("scale") == "norm" else drawn  # one length to float64, not float32

    return draw


def file_source(kind: str) -> tuple[Path, Literal["none", "norm"]] | None:
    """The file that an input names and how its samples are scaled, None where it names no file.

    Example:
        >>> file_source("x.npy:scale=norm"), file_source("gaussian")
        ((PosixPath('x.npy'), 'norm'), None)
    """
    if Path(kind).suffix.lower() in SUFFIXES:
        return Path(kind), "none"
    path, _, option = kind.rpartition(":")
    if Path(path).suffix.lower() not in SUFFIXES:
        return None
    if option not in ("scale=none", "scale=norm"):
        raise IsometerError(f"{kind!r} has the option {option!r}; expected scale=none or scale=norm — correct it")
    return Path(path), "norm" if option == "scale=norm" else "none"


def _from_file(path: Path, scale: Literal["none", "norm"], samples: int | None, features: int | None) -> Floats:
    array, name = read_numbers(path), repr(path.name)
    array = array.reshape(len(array), -1) if array.ndim > 2 and len(array) else array
    if array.ndim != 2 or 0 in array.shape:
        raise IsometerError(f"{name} has shape {array.shape}; expected (samples, features) — reshape it")
    if samples is not None:
        if samples > len(array):
            raise IsometerError(f"{name} has {len(array)} samples; {samples} were requested — request fewer")
        array = array[:samples]
    if features is not None and features != array.shape[1]:
        raise IsometerError(f"{name} has {array.shape[1]} features; expected {features} — change input_width")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise IsometerError(
            f"{name} has NaN or infinite entries in sample {int(np.argmax(bad))} ({int(bad.sum())} such of "
            f"{len(array)}) — clean the data first"
        )
    if scale == "norm":
        array = _unit_squares(array.astype(np.float64))
    return np.ascontiguousarray(array)


def _unit_squares(array: Floats) -> Floats:
    """Every sample with mean square 1, except zero."""
    largest = np.abs(array).max(axis=1, keepdims=True)
    scaled = array / np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor vanish
    squares = np.mean(scaled**2, axis=1, keepdims=True)
    return np.asarray(scaled / np.sqrt(np.where(squares > 0, squares, 1.0)))
