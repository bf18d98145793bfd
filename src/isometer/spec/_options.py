"""The short options of a chain: what norm position, gain and skip strength mean, in one place for every command.

| | no skip | with a skip of strength γ |
|---|---|---|
| no norm | dense > act | residual(act > dense, γ) |
| `pre` | dense > norm > act | residual(norm > act > dense, γ) |
| `post` | dense > act > norm | residual(act > norm > dense, γ) |
| `sum` | | residual(act > dense, γ) > norm |

`pre` and `post` say where the norm is relative to the activation; `sum` puts it after the addition.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from isometer.activations import Activation
from isometer.spec._activation import resolved
from isometer.spec._chain import POST_NORM, PRE_NORM, Chain, LayerStep
from isometer.spec._checks import SpecError, one_of
from isometer.spec._norm import Norm
from isometer.spec._schedule import Schedule

NormPosition = Literal["pre", "post", "sum"]
"""The type of a norm's place: before the activation, after it, or after the addition of a skip connection."""
POSITIONS: tuple[NormPosition, ...] = get_args(NormPosition)
"""The places of a norm."""
_BESIDE_SKIP: dict[str, tuple[LayerStep, ...]] = {
    "pre": ("norm", "activation", "weights", "residual"),
    "post": ("activation", "norm", "weights", "residual"),
    "sum": ("activation", "weights", "residual", "norm"),
}
SCALE_FREE = ("gaussian", "uniform", "orthogonal")
"""Laws of weights that leave their size to the gain; the others bring a size of their own."""


def layer_order(norm_position: NormPosition, *, skip: bool) -> tuple[LayerStep, ...]:
    """The order of a layer's steps.

    Example:
        >>> layer_order("pre", skip=False), layer_order("pre", skip=True)
        (('weights', 'norm', 'activation'), ('norm', 'activation', 'weights', 'residual'))
    """
    one_of(norm_position, POSITIONS, "the norm position")
    if skip:
        return _BESIDE_SKIP[norm_position]
    if norm_position == "sum":
        raise SpecError(
            "the norm position is 'sum', after the addition, and there is no skip connection; expected one — give the "
            "skip a finite strength (such as --gamma 0.5), or use 'pre' or 'post'"
        )
    return PRE_NORM if norm_position == "pre" else POST_NORM


def layer_place(chain: Chain) -> NormPosition | None:
    """The norm position that makes the order of a chain's layer, None where the short options have no word for it.

    Example:
        >>> layer_place(Chain(width=4, depth=2, norm="layer", order=("weights", "activation", "norm")))
        'post'
        >>> layer_place(Chain(width=4, depth=2, norm="layer", order=("norm", "activation", "weights"))) is None
        True
    """
    steps = chain.operations
    for place in POSITIONS:
        if place == "sum" and not chain.has_skip:
            continue
        own = [step for step in layer_order(place, skip=chain.has_skip) if step in steps]
        if tuple(own) == steps:
            return place
    return None


def forward_gain(activation: str, norm: Norm | None = None, norm_position: NormPosition = "pre") -> float:
    """The principled gain: with it the weights return unit variance where an activation sees unit variance.

    It is 1/√(E φ(X)²), X standard normal; and 1 where a norm rescales the activation before it enters the weights.

    Example:
        >>> forward_gain("relu"), forward_gain("relu", Norm.named("layer"), "post")
        (1.4142135623730951, 1.0)
    """
    return forward_gain_of(resolved(activation), rescaled=norm is not None and norm.rescale and norm_position == "post")


def forward_gain_of(phi: Activation, *, rescaled: bool = False) -> float:
    """The principled gain after an activation, `rescaled` by a norm or as it is.

    Example:
        >>> from isometer import activation
        >>> forward_gain_of(activation("relu"))
        1.4142135623730951
    """
    if rescaled:
        return 1.0
    gain = float(phi.gain_forward)
    if not 0 < gain < math.inf:
        raise SpecError(f"{phi.name} has no principled gain, since E φ² is zero or infinite — give the gain a number")
    return gain


def chain_from_options(
    *,
    width: int = 100,
    depth: int = 50,
    activation: str = "relu",
    norm: Norm | str | None = None,
    norm_position: NormPosition = "pre",
    weights: str = "gaussian",
    gain: Schedule | Literal["forward"] | None = None,
    bias_variance: float = 0.0,
    gamma: float | None = None,
    input_width: int | None = None,
) -> Chain:
    """The chain that the short options describe; every command makes its network here.

    Args:
        width: features of every layer.
        depth: number of layers.
        activation: φ as text.
        norm: a `Norm`, its name, or None.
        norm_position: `"pre"`, `"post"` or `"sum"`, see the table of the module.
        weights: the law of the weights.
        gain: factor of the weights; `"forward"` for the principled gain (`forward_gain`), which is also the default for
            the laws that leave their size to it (gaussian, uniform, orthogonal). The default of others is 1.
        bias_variance: variance of the biases of every dense step.
        gamma: γ, the strength of the branch beside a skip connection; None or infinity for no skip.
        input_width: features of the input, those of a layer by default.

    Returns:
        The chain.

    Example:
        >>> print(chain_from_options(width=8, depth=3, activation="tanh", norm="layer", gamma=0.5, gain=1.0))
        input(8) > repeat(residual(norm('layer') > act('tanh') > dense, 0.5), 3)
        >>> print(chain_from_options(width=8, depth=3, norm="rms", norm_position="sum", gamma=0.5, gain=1.0))
        input(8) > repeat(residual(act('relu') > dense, 0.5) > norm('rms'), 3)
    """
    strength = math.inf if gamma is None else gamma
    skip = not math.isinf(strength)
    own = Norm.named(norm) if isinstance(norm, str) else norm
    order = layer_order("pre" if own is None else norm_position, skip=skip)
    if gain is None:
        gain = "forward" if weights in SCALE_FREE else 1.0
    factor = forward_gain(activation, own, norm_position) if gain == "forward" else gain
    return Chain(
        width=width,
        depth=depth,
        activation=activation,
        norm=own,
        weights=weights,
        gain=factor,
        bias_variance=bias_variance,
        residual=strength,
        order=order,
        input_width=input_width,
    )
