"""Which parts of batch norm a layer has, and the activation with the affine part folded in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.spec import Norm

Kind = Literal["full", "recenter", "rms", "std"]
Position = Literal["pre", "post"]


@dataclass(frozen=True)
class Parts:
    """A batch-norm layer at infinite width.

    `kind`: `"full"` (v = √n Mh/‖Mh‖), `"recenter"` (Mh), `"rms"` (√n h/‖h‖) or `"std"` (√n h/‖Mh‖), M = I − 11ᵀ/n.
    `phi` is the activation with the norm's scale and shift folded in (`"pre"`) or as given (`"post"`).

    Example:
        >>> Parts.of("tanh", "batch-rescale", "pre").kind
        'rms'
    """

    phi: Activation
    kind: Kind
    position: Position

    @classmethod
    def of(
        cls, source: str | Activation, norm: str | Norm = "batch", position: Position = "pre", n: int | None = None
    ) -> Parts:
        """From what a user passes; `n` is needed for norms of size `"length"` only."""
        phi = source if isinstance(source, Activation) else activation(source)
        chosen = norm if isinstance(norm, Norm) else Norm.named(norm)
        if position not in ("pre", "post"):
            raise IsometerError(f"position is {position!r}; expected 'pre' or 'post' (norm before or after activation)")
        if chosen is None or chosen.over != "batch" or chosen.whiten:
            raise IsometerError(
                f"norm is {norm!r}; expected a batch norm: batch, batch-recenter, batch-rescale or batch-rescale-std — "
                "kernel_map covers layer norms and networks without normalisation"
            )
        if chosen.eps > 0:
            raise IsometerError(
                f"norm.eps is {chosen.eps}; expected 0: ε > 0 ties the layer to the scale of its input — pass eps=0, "
                "which it approaches for signals of variance far above ε"
            )
        if chosen.rescale and chosen.recenter and chosen.divisor == "rms":
            raise IsometerError(
                "norm recentres and divides by the root mean square of what it was before; expected divisor 'std' "
                "with recentring — drop one of the two"
            )
        scale, shift = chosen.scale, chosen.shift
        if chosen.size == "length":
            if n is None:
                raise IsometerError("norm.size is 'length'; expected the number of samples too — pass n")
            scale = scale / math.sqrt(n)
        if (scale, shift) != (1.0, 0.0):
            if position == "post":
                raise IsometerError(
                    f"norm has scale {scale:.6g} and shift {shift:.6g} after the activation; expected 1 and 0 there — "
                    "put the norm before the activation or fold the scale into the weights"
                )
            phi = phi.shifted(shift).gain(scale)  # x ↦ φ(scale·x + shift)
        kind: Kind = "recenter"
        if chosen.rescale:
            kind = "full" if chosen.recenter else ("rms" if chosen.divisor == "rms" else "std")
        return cls(phi, kind, position)


def checked_samples(n: int, least: int = 2) -> int:
    """The batch size as an integer of at least `least`."""
    if isinstance(n, bool) or int(n) != n or n < least:
        raise IsometerError(
            f"n is {n!r}; expected a whole number of at least {least}: batch statistics of fewer samples are trivial "
            "— pass a larger batch"
        )
    return int(n)
