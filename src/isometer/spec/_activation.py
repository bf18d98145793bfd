"""Activations as text in a spec, and what a spec needs to know of them."""

import importlib
from typing import Any

import numpy as np

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.spec._checks import SpecError

_IMPORT = "import:"


def activation_text(source: Any) -> str:
    """The text that stands for an activation in a spec, checked by resolving it."""
    if isinstance(source, Activation):
        try:
            same = activation(source.name) == source
        except IsometerError:
            same = False
        if not same:
            raise SpecError(
                f"the activation {source.name!r} cannot be written as text; expected a name or an expression — pass "
                "'import:package.module:function' for a callable of your own"
            )
        return source.name
    if not isinstance(source, str):
        raise SpecError(
            f"activation is {source!r}; expected text such as 'relu' — pass "
            "'import:package.module:function' for a callable"
        )
    resolved(source)
    return source


_ACTIVATIONS: dict[str, Activation] = {}


def resolved(text: str) -> Activation:
    if text not in _ACTIVATIONS:
        if not text.startswith(_IMPORT):
            return activation(text)
        module, _, attribute = text[len(_IMPORT) :].partition(":")
        try:
            function = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # a module that is imported may raise anything
            raise SpecError(
                f"activation {text!r} cannot be imported ({error}); expected "
                "import:package.module:function — correct it"
            ) from None
        _ACTIVATIONS[text] = activation(function, name=attribute)
    return _ACTIVATIONS[text]


def positively_homogeneous(phi: Activation) -> bool:
    """φ(cx) = cφ(x) for c > 0, judged on a few points."""
    x = np.array([-3.0, -1.0, -0.37, -1e-3, 0.0, 1e-3, 0.61, 1.0, 2.5])
    return all(np.allclose(phi(c * x), c * phi(x), rtol=1e-12, atol=0.0) for c in (0.5, 3.0, 1e6))
