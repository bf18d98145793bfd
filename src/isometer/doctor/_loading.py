"""What the command examines: where models, weights and batches come from.

A target in a Python file or module is *executed*, with all that this means. Weights and batches are data only: nothing
in those files is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.data._user_file import memory_limit
from isometer.doctor._tensors import read_batch, read_tensors
from isometer.doctor.patients import PATIENTS, Images, Patient, patient
from isometer.doctor.probe._given import BatchReader
from isometer.doctor.probe._made_up import first_layer, made_up_batch
from isometer.errors import IsometerError
from isometer.files import read_regular
from isometer.report._document import parse_report
from isometer.spec import Spec, read_spec

_PATIENT_SIZE = 28


@dataclass
class Target:
    """Something to examine.

    Attributes:
        name: what to call it.
        model: the module.
        batch: inputs that came with it, `None` if it brings none.
        target: what the loss compares with.
        loss: that came with it.
        executed: the file or module that was run to make it, if any.
        shape: shape of one sample, where it is known.
        patient: the built-in patient it is, if it is one.
    """

    name: str
    model: nn.Module
    batch: Any = None
    target: Any = None
    loss: Callable[..., torch.Tensor] | None = None
    executed: str | None = None
    shape: tuple[int, ...] | None = None
    patient: Patient | None = field(default=None)


def load_target(text: str, *, seed: int = 0) -> Target:
    """The model that a target names.

    Args:
        text: `path/to/file.py:factory`, `package.module:factory`, a spec as JSON file, or a built-in patient. A factory
            is a function without required arguments, or a class, that gives a model, or `(model, batch)`, or
            `(model, batch, target)`; a module that exists already will do as well.
        seed: seed of a spec's or patient's weights; also given to torch while a factory runs.

    Raises:
        IsometerError: there is no such file, name or patient, or it does not give a model.

    Example:
        >>> load_target("mlp-relu-5").name
        'mlp-relu-5'
    """
    if text in PATIENTS:
        built_in = patient(text)
        return Target(text, built_in.model(seed), loss=built_in.loss, patient=built_in)
    if text.endswith(".json"):
        return network_target(read_spec(text), Path(text).stem, seed=seed)
    # From the right: a path may hold colons of its own.
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name.isidentifier():
        try:
            # Called for its error, which names the nearest patient.
            patient(text)
        except IsometerError as problem:
            if text.endswith(".py"):
                raise IsometerError(
                    f"target {text!r} is a file; expected the name of a model, or of a function that makes one, in "
                    f"that file — write {text}:NAME"
                ) from None
            raise IsometerError(
                f"target {text!r} is neither file.py:factory, package.module:factory, a spec in FILE.json nor a "
                f"built-in patient ({problem})"
            ) from None
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also seed accelerators, whose generators the fork does not restore.
        torch.default_generator.manual_seed(seed)
        module = _module_from_file(Path(where)) if where.endswith(".py") else _module_by_name(where)
        made = _made(module, name, text)
    model, batch, target = made
    return Target(text, model, batch, target, executed=where)


def load_factory(text: str) -> Callable[..., Any]:
    """The function that makes models of several sizes; its file or module is executed.

    Args:
        text: `path/to/file.py:factory` or `package.module:factory`.

    Raises:
        IsometerError: there is no such file or name, or it cannot be called.

    Example:
        >>> load_factory("torch.nn:Linear").__name__
        'Linear'
    """
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise IsometerError(
            f"target {text!r} names no factory; expected file.py:factory or package.module:factory, a function of "
            "width and depth — write model.py:make, for example"
        )
    module = _module_from_file(Path(where)) if where.endswith(".py") else _module_by_name(where)
    made = _named(module, name, text)
    if isinstance(made, nn.Module) or not callable(made):
        raise IsometerError(
            f"{name!r} is a {type(made).__name__}; expected a function of width and depth that makes a model — write "
            "def make(width, depth): …"
        )
    found: Callable[..., Any] = made
    return found


def network_target(spec: Spec, name: str, *, seed: int = 0) -> Target:
    """The torch network of a spec, with random weights.

    Example:
        >>> network_target(Spec("input(8) > repeat(dense > act('relu'), 3)"), "mine").shape
        (8,)
    """
    from isometer.nn import build

    return Target(name, build(spec, seed=seed), shape=(spec.shape.width, *spec.shape.axes))


def _module_from_file(path: Path) -> Any:
    if not path.is_file():
        raise IsometerError(f"there is no file {str(path)!r}; expected a Python file with a factory in it")
    name = f"_isometer_target_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise IsometerError(f"{str(path)!r} cannot be imported; expected a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # classes made in it can then be found by name
    # The file may import its neighbours, as it does when Python runs it.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        specification.loader.exec_module(module)
    except SyntaxError as problem:
        raise IsometerError(f"{str(path)!r} is not valid Python: line {problem.lineno}: {problem.msg}") from problem
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _module_by_name(name: str) -> Any:
    if not all(part.isidentifier() for part in name.split(".")):
        raise IsometerError(
            f"{name!r} is not the name of a module; expected package.module — give the path of a file "
            "as path/to/file.py:factory"
        )
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        # A module that the target's own imports miss is another error, and comes through.
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise IsometerError(
                f"there is no module {name!r}; expected one that can be imported from here — give the path of a file "
                "as path/to/file.py:factory"
            ) from problem
        raise
    finally:
        sys.path.remove(here)


def _named(module: Any, name: str, text: str) -> Any:
    if not hasattr(module, name):
        public = [one for one in vars(module) if not one.startswith("_") and callable(getattr(module, one))]
        raise IsometerError(f"{text!r}: there is no {name!r}; callable names there: {', '.join(public[:8]) or 'none'}")
    return getattr(module, name)


def _made(module: Any, name: str, text: str) -> tuple[nn.Module, Any, Any]:
    made = _named(module, name, text)
    if not isinstance(made, nn.Module) and callable(made):
        required = _required(made)
        if required:
            raise IsometerError(
                f"{name!r} needs the arguments {', '.join(required)}; expected a function without required ones "
                "— write one that calls it"
            )
        made = made()
    parts = made if isinstance(made, tuple) else (made,)
    if not parts or not isinstance(parts[0], nn.Module) or len(parts) > 3:
        raise IsometerError(
            f"{name!r} returned a {type(made).__name__}; expected a torch.nn.Module, (model, batch) "
            "or (model, batch, target)"
        )
    return parts[0], parts[1] if len(parts) > 1 else None, parts[2] if len(parts) > 2 else None


def _required(factory: Callable[..., Any]) -> list[str]:
    """Arguments that a factory cannot do without; none are known of some that are written in C."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (ValueError, TypeError):
        return []
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.default is one.empty and one.kind in named]


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a checkpoint into a model; nothing in the file is executed.

    Args:
        model: whose names the checkpoint has.
        path: `.safetensors`, or a state dict saved by torch (`weights_only=True`), possibly under the key `state_dict`,
            `model_state_dict` or `model`; the prefixes of compiled and distributed models are taken off.

    Raises:
        IsometerError: the file cannot be read as data, or names or shapes differ.
    """
    held = sum(one.numel() * one.element_size() for one in model.state_dict().values() if isinstance(one, torch.Tensor))
    # A model that fits into memory has weights that do, with what an optimiser keeps beside them.
    state = read_tensors(path, limit=max(memory_limit(), 4 * held))
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise IsometerError(f"{str(path)!r} holds a {type(state).__name__}; expected a state dict of tensors")
    state = _without_wrappers(state, model)
    try:
        model.load_state_dict(state)
    except RuntimeError as problem:
        raise IsometerError(
            f"the weights in {str(path)!r} do not fit the model: {' '.join(str(problem).split())[:400]}"
        ) from problem


def _without_wrappers(state: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """The names of the model itself where all have the prefix of one that was compiled or distributed."""
    own = model.state_dict()
    for prefix in ("module.", "_orig_mod.") * 2:
        if state and all(name.startswith(prefix) for name in state) and not all(name in own for name in state):
            state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def load_batch(path: Path, model: nn.Module) -> Any:
    """The batch in a file; one of integers, truth values or another precision in the model's, if it takes only that.

    Args:
        path: as for `isometer.doctor._tensors.read_batch`.
        model: that is called with it.

    Raises:
        IsometerError: the file cannot be read as data, or holds integers that the model's precision rounds.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.ones((2, 3), dtype=np.uint8))
        ...     load_batch(Path(folder) / "x.npy", nn.Linear(3, 1)).dtype
        torch.float32
    """
    return BatchReader(model).inputs(read_batch(path), name=repr(path.name))


def make_batch_for(
    target: Target, data: str, n: int | None, *, shape: tuple[int, ...] | None, seed: int
) -> tuple[Any, Any]:
    """Inputs (and labels) for a target that brings none.

    Args:
        target: what is examined.
        data: `gaussian`, or the name of a data set.
        n: number of samples, 32 (or the patient's own) by default.
        shape: shape of one sample; guessed from the model's first layer by default.
        seed: seed of the draw.

    Raises:
        IsometerError: the shape cannot be guessed, or a data set does not fit it.
    """
    images = None if data == "gaussian" else _images(data)
    if target.patient is not None:
        if images is None:
            return target.patient.example(n, seed)
        return target.patient.example(n, seed, _patient_images(data))
    size = 32 if n is None else n
    shape = shape or target.shape
    if images is None:
        return made_up_batch(target.model, size, shape=shape, seed=seed), None
    pixels, labels = images
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:size].numpy()
    batch = torch.from_numpy(pixels[chosen].astype(np.float32) / 255.0)
    batch = (batch - batch.mean()) / batch.std()
    if shape is None and isinstance(first_layer(target.model), nn.Linear):
        shape = (batch[0].numel(),)
    if shape is not None and int(np.prod(shape)) == batch[0].numel():
        batch = batch.reshape(size, *shape)
    elif shape is not None:
        raise IsometerError(f"images of {data} have {batch[0].numel()} numbers; expected {shape} — pass --input FILE")
    return batch, torch.from_numpy(labels[chosen].astype(np.int64))


def _small_grey(images: np.ndarray) -> np.ndarray:
    """Images of one channel and 28 × 28 pixels, as the built-in patients take them: grey, the middle, black around."""
    grey: np.ndarray = images.mean(axis=1, keepdims=True)
    for axis in (2, 3):
        extra = grey.shape[axis] - _PATIENT_SIZE
        if extra > 0:
            grey = np.take(grey, range(extra // 2, extra // 2 + _PATIENT_SIZE), axis=axis)
        elif extra < 0:
            margins = [(0, 0)] * 4
            margins[axis] = (-extra // 2, -extra - (-extra // 2))
            grey = np.pad(grey, margins)
    return grey


@lru_cache(maxsize=1)  # a stress test asks for dozens of batches
def _images(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All images, as bytes, and their labels."""
    from isometer.data import load

    loaded = load(name)
    return loaded.images, loaded.labels


@lru_cache(maxsize=1)
def _patient_images(name: str) -> Images:
    pixels, labels = _images(name)
    return Images.of(_small_grey(pixels.astype(np.float32) / 255.0), labels)


def load_baseline(path: Path) -> dict[str, Any]:
    """A report that `isometer doctor --json` printed.

    Raises:
        IsometerError: the file is not one.
    """
    try:
        content = read_regular(path)
    except OSError as problem:
        raise IsometerError(f"cannot read the baseline {str(path)!r}: {problem.strerror}") from None
    return parse_report(content, what=f"the baseline {str(path)!r}")
