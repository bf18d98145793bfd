"""Networks as files: the expression and the weights in one safetensors file, in which nothing can be executed."""

from __future__ import annotations

from pathlib import Path

from isometer.errors import IsometerError
from isometer.files import write_whole
from isometer.nn._composition import ComposedNetwork
from isometer.nn._network import Network, build
from isometer.spec import Spec

_KEY = "network"
_MAKE = "write it with isometer.nn.save_network"


def save_network(network: Network | ComposedNetwork, path: str | Path) -> Path:
    """Write a network that `build` made: its expression as metadata, its weights as tensors.

    Args:
        network: with the weights that it has now; without a readin or readout of its own.
        path: to write, usually `.safetensors`.

    Returns:
        The path.

    Raises:
        IsometerError: the network has a projection that its spec does not have, or the spec has no expression.

    Example:
        >>> import tempfile
        >>> network = build(Spec("input(8) > repeat(dense > act('relu'), 3) > dense(2)"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_network(network, f"{folder}/network.safetensors")
        ...     again = load_network(path)
        >>> print(again.spec)
        input(8) > repeat(dense > act('relu'), 3) > dense(2)
        >>> all((a == b).all() for a, b in zip(network.parameters(), again.parameters()))
        True
    """
    from safetensors.torch import save

    extra = [name for name in ("readin", "readout") if getattr(network, name, None) is not None]
    if extra:
        raise IsometerError(
            f"the network has a {extra[0]} that its spec does not have; expected all of it in the spec — write it as a "
            "step, dense(10) for a readout of 10 classes"
        )
    text = str(network.spec)
    if Spec(text) != network.spec:
        raise IsometerError(f"the spec is not the network of its expression {text!r}; expected one that is")
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    write_whole(Path(path), save(state, metadata={_KEY: text}))
    return Path(path)


def network_text(path: str | Path) -> str:
    """The expression of a network in a file, without its weights.

    Raises:
        IsometerError: the file is no safetensors file, or no network.
    """
    from safetensors import SafetensorError, safe_open

    name = Path(path).name
    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(_KEY, "")
    except (SafetensorError, OSError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:160]
        raise IsometerError(f"{name!r} is not a safetensors file: {reason} — {_MAKE}") from None
    if not text:
        raise IsometerError(f"{name!r} holds weights but no network; expected its expression as metadata — {_MAKE}")
    return str(text)


def load_network(path: str | Path) -> Network | ComposedNetwork:
    """The network in a file that `save_network` wrote. Nothing in the file is executed.

    Args:
        path: path of the file.

    Returns:
        The network, in training mode.

    Raises:
        IsometerError: the file is not a safetensors file or holds no network, or its weights do not fit.

    Example:
        >>> load_network(__file__)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: '_saved.py' is not a safetensors file: ...
    """
    from safetensors.torch import load_file

    network = build(Spec(network_text(path)))
    try:
        network.load_state_dict(load_file(path))
    except RuntimeError as problem:
        reason = " ".join(str(problem).split())[:300]
        raise IsometerError(f"the weights in {Path(path).name!r} do not fit its network: {reason}") from None
    return network
