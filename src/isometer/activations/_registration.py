"""Activations of one's own in the registry, for as long as the process runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isometer.activations._activation import Activation
from isometer.activations._expression import Expression
from isometer.activations._names import find, forget_names
from isometer.activations._parser import parse, reserved_names
from isometer.activations._registry import ALIASES, ENTRIES, ActivationEntry, TorchForm
from isometer.errors import ActivationError

_ADDED: set[str] = set()


def register_activation(
    name: str,
    expression: str | Callable[..., str],
    *,
    formula: str = "",
    defaults: Sequence[float] = (),
    aliases: Sequence[str] = (),
    torch: Sequence[TorchForm] = (),
    flat: Callable[..., tuple[float, float]] | None = None,
) -> Activation:
    """Register an activation under a name, for expressions, specs, networks, the command line and the doctor.

    The registry is that of this process: a worker in another process has to register the activation too.

    Args:
        name: a new name.
        expression: text that `isometer.activation` reads, or a function from parameters to such text.
        formula: what tables show; the expression by default.
        defaults: default values of the parameters.
        aliases: other names.
        torch: modules and functions that compute it, which are then recognised and built.
        flat: where it saturates; see `ActivationEntry`.

    Returns:
        The activation, with its default parameters.

    Raises:
        ActivationError: a name is taken or is not a name, or the expression cannot be read.

    Example:
        >>> from isometer import activation
        >>> from isometer.activations import register_activation, unregister_activation
        >>> snake = register_activation("snake", lambda a: f"x + sin({a!r}*x)**2/{a!r}", defaults=[1.0])
        >>> activation("snake(2)")(0.0), round(activation("normalized(snake)").second_moment, 12)
        (0.0, 1.0)
        >>> unregister_activation("snake")
    """
    for one in (name, *aliases):
        if not one.isidentifier() or find(one) is not None or one in reserved_names():
            taken = "is taken" if one.isidentifier() else "is not a name"
            raise ActivationError(f"{one!r} {taken}; expected a new name of letters, digits and _ — choose another")

    def tree(*parameters: float) -> Expression:
        return parse(expression if isinstance(expression, str) else expression(*parameters)).expression

    shown = formula or (expression if isinstance(expression, str) else str(tree(*defaults)))
    entry = ActivationEntry(name, shown, tree, tuple(map(float, defaults)), tuple(aliases), tuple(torch), flat)
    # before anything is registered: what cannot be read leaves no trace, and cannot refer to itself
    made = Activation(tree(*entry.defaults), name)
    ENTRIES[name] = entry
    ALIASES.update(dict.fromkeys(entry.aliases, name))
    _ADDED.add(name)
    forget_names()
    return made


def unregister_activation(name: str) -> None:
    """Remove an activation that `register_activation` added.

    Example:
        >>> from isometer.activations import register_activation, unregister_activation
        >>> phi = register_activation("ramp", "max(x, 0)")
        >>> unregister_activation("ramp")
        >>> unregister_activation("ramp")
        Traceback (most recent call last):
        ...
        isometer.errors.ActivationError: 'ramp' is not registered; expected a name given to register_activation
    """
    if name not in _ADDED:
        raise ActivationError(f"{name!r} is not registered; expected a name given to register_activation")
    for alias in ENTRIES.pop(name).aliases:
        del ALIASES[alias]
    _ADDED.discard(name)
    forget_names()
