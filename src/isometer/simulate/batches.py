"""Synthetic input batches, and batches from files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError

Floats = NDArray[np.float64]
_KINDS = "gaussian, correlated:COSINE, orthogonal, degenerate:DISTINCT or the path of a .npy, .npz or .csv file"


def make_batch(
    kind: str, samples: int | None = None, features: int | None = None, *, seed: int = 0, runs: int | None = None
) -> Floats:
    """An input batch by name; samples have mean square 1 on average, length √features.

    - `gaussian`: independent standard normals;
    - `correlated:COSINE`: lengths √features and the same cosine between any two samples, exactly (as many features as
      samples at least, cosine from −1/(n − 1) to 1);
    - `orthogonal`: orthogonal samples of length √features; with more samples than features, orthogonal features;
    - `degenerate:DISTINCT`: Gaussian samples of which only the first DISTINCT differ, repeated in turn;
    - a path: the array in a `.npy`, `.npz` (its only one) or `.csv` file, `samples` rows of it if given.

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
    name, _, argument = kind.partition(":")
    if Path(kind).suffix in (".npy", ".npz", ".csv"):
        return _from_file(Path(kind), samples, features)
    for value, what in ((samples, "samples"), (features, "features")):
        if not isinstance(value, int) or value < 1:
            raise IsometerError(f"{what} is {value!r}; expected a whole number of at least 1 — pass {what}=…")
    assert samples is not None
    assert features is not None
    if runs is not None:
        spawned = [np.random.SeedSequence(seed, spawn_key=(run,)) for run in range(runs)]
        return np.stack([_drawn(kind, name, argument, samples, features, np.random.default_rng(s)) for s in spawned])
    return _drawn(kind, name, argument, samples, features, np.random.default_rng(np.random.SeedSequence(seed)))


def _drawn(kind: str, name: str, argument: str, n: int, d: int, rng: np.random.Generator) -> Floats:
    if kind == "gaussian":
        return rng.standard_normal((n, d))
    if kind == "orthogonal":
        q, r = np.linalg.qr(rng.standard_normal((max(n, d), min(n, d))))
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        return np.asarray((q.T if n <= d else q) * math.sqrt(max(n, d) if n > d else d))
    if name == "correlated":
        return _correlated(_argument(kind, argument), n, d, rng)
    if name == "degenerate":
        distinct = _argument(kind, argument)
        if distinct != int(distinct) or not 1 <= distinct <= n:
            raise IsometerError(
                f"input is {kind!r}; expected 1 to {n} distinct samples, as the batch has {n} — change it"
            )
        return rng.standard_normal((int(distinct), d))[np.arange(n) % int(distinct)]
    raise IsometerError(f"input is {kind!r}; expected {_KINDS} — correct it")


def _argument(kind: str, argument: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise IsometerError(f"input is {kind!r}; expected a number after the colon — correlated:0.8, say") from None


def _correlated(cosine: float, n: int, d: int, rng: np.random.Generator) -> Floats:
    lowest = -1 / (n - 1) if n > 1 else -1.0
    if not lowest <= cosine <= 1:
        raise IsometerError(f"cosine is {cosine}; {n} samples can have {lowest:.3g} to 1 — change it")
    if d < n:
        raise IsometerError(f"{n} samples of cosine {cosine} need at least {n} features; got {d} — pass more features")
    frame = _drawn("orthogonal", "", "", n, d, rng)
    # the root of (1 − c) I + c 11ᵀ has the same form
    small, large = math.sqrt(max(0.0, 1 - cosine)), math.sqrt(max(0.0, 1 + (n - 1) * cosine))
    return np.asarray(small * frame + (large - small) * frame.mean(0))


def _from_file(path: Path, samples: int | None, features: int | None) -> Floats:
    if not path.is_file():
        raise IsometerError(f"no file {str(path)!r}; expected {_KINDS} — correct the path")
    if path.suffix == ".csv":
        array = np.loadtxt(path, delimiter=",", ndmin=2)
    else:
        loaded = np.load(path, allow_pickle=False)
        if path.suffix == ".npz":
            if len(loaded.files) != 1:
                raise IsometerError(
                    f"{path.name} holds {len(loaded.files)} arrays; expected one — save the batch alone"
                )
            loaded = loaded[loaded.files[0]]
        array = np.asarray(loaded, dtype=np.float64)
    array = array.reshape(len(array), -1) if array.ndim > 2 else array
    if array.ndim != 2 or 0 in array.shape:
        raise IsometerError(f"{path.name} has shape {array.shape}; expected (samples, features) — reshape it")
    if samples is not None:
        if samples > len(array):
            raise IsometerError(f"{path.name} has {len(array)} samples; {samples} were asked for — ask for fewer")
        array = array[:samples]
    if features is not None and features != array.shape[1]:
        raise IsometerError(f"{path.name} has {array.shape[1]} features; expected {features} — change input_width")
    return np.ascontiguousarray(array, dtype=np.float64)
