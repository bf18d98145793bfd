"""Other activation functions in the place of those that a model has."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch import nn

from isometer.activations import ENTRIES, activation
from isometer.activations import Activation as Function
from isometer.activations._closed_forms import as_two_rays
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examine import probe
from isometer.doctor.probe._signals import guarded
from isometer.doctor.probe._sites import Site
from isometer.doctor.probe._world import World
from isometer.doctor.treatment._surgery import is_plain, own_places, put, seen, single_use
from isometer.errors import IsometerError
from isometer.nn import Activation

_SLOPE = 1.5  # κ_L'(1) of deep kernel shaping
_COSINE = 0.9  # κ_L(0) of a tailored leaky ReLU
_LINES = 3
_DONE = ("normalized(", "shaped(", "unit(leaky_relu")
_FALL = -0.4  # exponent of the gains of 001/rec-6.11


def normalize_activations_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Replace every activation φ by `(φ(x) − E φ(z)) / √Var φ(z)`, z standard Gaussian, in place.

    The normalised function needs weights of gain 1: call `isometer.init.principled_gain_` afterwards.

    Args:
        model: the model, whose activations are modules.
        batch: what it is called with.

    Returns:
        Names of the modules that were replaced.

    Raises:
        IsometerError: an activation is a function within a forward method, is used twice or is not in the registry. The
            model is then as it was.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        >>> normalize_activations_(model, torch.randn(3, 4))
        ('1',)
        >>> model[1]
        Activation(normalized(relu))

    Implements: 001/thm-5.8, 004/eq-2.
    """
    places = _places(model, batch)
    made = [(site.name, Activation(_function(model, site), normalized=True)) for site in places]
    for name, module in made:
        put(model, name, module)
    return tuple(name for name, _ in made)


def shape_activations_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Replace every activation by one shaped for the depth of the model, closer to linear the deeper it is; in place.

    ReLU and its leaky versions become a leaky ReLU that brings orthogonal samples to cosine 0.9 at the output. Other
    functions get input and output scales and shifts with κ(0) = 0 and κ_L'(1) = 1.5, or, after batch norm, which resets
    the scale in every layer, the falling gain of `φ(ℓ^{−0.4} x)`, normalised. All are of gain 1: call
    `isometer.init.principled_gain_` afterwards.

    Args:
        model: the model, whose activations are modules.
        batch: what it is called with.

    Returns:
        Names of the modules that were replaced.

    Raises:
        IsometerError: as `normalize_activations_`, or an activation cannot be shaped. The model is then as it was.

    Example:
        >>> import torch
        >>> model = nn.Sequential(*[m for _ in range(9) for m in (nn.Linear(4, 4), nn.ReLU())])
        >>> len(shape_activations_(model, torch.randn(3, 4)))
        9

    Implements: 001/alg-C.5, 001/rec-6.11.
    """
    places = _places(model, batch)
    depth = len({site.depth for site in places})
    behind_batch_norm = any(site.statistics for site in seen(model, batch))
    made: list[tuple[str, Activation]] = []
    shaped: dict[str, Function] = {}
    for layer, site in enumerate(places, start=1):
        phi = _function(model, site)
        if behind_batch_norm and as_two_rays(phi.expression) is None:
            made.append((site.name, Activation(phi, gain=layer**_FALL, normalized=True)))
            continue
        if phi.name not in shaped:
            shaped[phi.name] = _shaped(phi, depth)
        made.append((site.name, Activation(shaped[phi.name])))
    for name, module in made:
        put(model, name, module)
    return tuple(name for name, _ in made)


def _shaped(phi: Function, depth: int) -> Function:
    from isometer.theory import kernel_map, shape_activation, tailored_leaky_relu

    if as_two_rays(phi.expression) is None:
        return shape_activation(phi, depth, output_slope=_SLOPE).activation
    # Among leaky ReLUs the plain one brings samples closest: no target above its cosine can be met.
    highest = float(kernel_map(activation("relu")).iterate(0.0, depth).cosine[-1])
    return tailored_leaky_relu(depth, min(_COSINE, highest))


def _places(model: nn.Module, batch: Any) -> list[Site]:
    """Activations between weights, all of them modules with a place of their own."""
    view = View(probe(model, batch))
    sites = view.sites
    modules = dict(model.named_modules())
    found = [site for site in (sites[layer] for layer in view.activations) if _acts(site, modules.get(site.name))]
    if not found:
        raise IsometerError("the model has no activation between its weights; expected one — there is none to replace")
    for site in found:
        module = modules.get(site.name)
        if not site.name or module is None or not is_plain(module):
            lines = list(dict.fromkeys(one.where for one in found if one.op == site.op and one.where))
            where = f"at {', '.join(lines[:_LINES])}" if lines else "in its forward method"
            raise IsometerError(
                f"the activation {site.op!r} of {site.name or 'the model'!r} is a function called {where}; expected a "
                "module, which can be replaced — write isometer.nn.Activation there yourself"
            )
    single_use(sites, [site.name for site in found])
    own_places(model, [site.name for site in found])
    return found


def _acts(site: Site, module: nn.Module | None) -> bool:
    """Whether a site is an activation to replace: rotary embeddings bend what they are given too, and are none."""
    if site.activation is not None or module is None or not is_plain(module) or isinstance(module, Activation):
        return True
    return _response(module) is not None


@cache
def _grid() -> torch.Tensor:
    return torch.linspace(-6.0, 6.0, 241, dtype=torch.float64)


def _response(module: nn.Module) -> torch.Tensor | None:
    """What a module makes of single numbers, `None` if it does not take each by itself."""
    x = _grid()

    def both() -> tuple[Any, Any]:
        with torch.no_grad():
            return module(x.clone()), module(x.flip(0))

    try:
        y, back = guarded(both, World().restore)  # it may draw numbers
    except Exception:  # a module may ask for anything
        return None
    if not isinstance(y, torch.Tensor) or y.shape != x.shape or not torch.allclose(back.flip(0), y):
        return None
    return y


def _recognised(module: nn.Module) -> Function | None:
    """The activation of the registry that a module computes, whatever its class is called: transformers has its own."""
    y = _response(module)
    if y is None:
        return None
    for name in ENTRIES:
        phi = activation(name)
        with suppress(Exception):  # some are defined by what numbers cannot tell
            known = torch.as_tensor(phi(_grid().numpy()))
            if torch.allclose(y, known, rtol=1e-5, atol=1e-6):
                return phi
    return None


def _function(model: nn.Module, site: Site) -> Function:
    module = model.get_submodule(site.name)
    if isinstance(module, Activation):
        if module.activation.name.startswith(_DONE):
            raise IsometerError(
                f"the activation of {site.name!r} is {module.activation.name}; expected an unmodified one — "
                "it has already been normalised or shaped"
            )
        return module.activation
    known = _recognised(module) if site.activation is None else None
    if site.activation is None and known is None:
        raise IsometerError(
            f"the activation {site.op!r} of {site.name!r} is not in the registry; expected a known one — wrap it as "
            "isometer.nn.Activation(function)"
        )
    phi = known or activation(str(site.activation))
    if not math.isfinite(phi.gain_forward):
        raise IsometerError(f"{phi.name} is zero almost everywhere; expected an activation with nonzero outputs")
    return phi
