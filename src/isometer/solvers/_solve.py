"""`isometer.solve`: one question, one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer.solvers._answer import Answer
from isometer.solvers._bands import largest_depth
from isometer.solvers._conditioning import least_depth
from isometer.solvers._edge import edge_curve, edge_of
from isometer.spec import Spec
from isometer.spec._edits import NetworkNumber


def solve(
    unknown: Literal["depth"] | NetworkNumber,
    spec: Spec,
    inputs: ArrayLike | None = None,
    *,
    gram: ArrayLike | None = None,
    condition: float | None = None,
    kind: Literal["nngp", "ntk"] = "nngp",
    cosines: tuple[float, float] | None = None,
    gradients: tuple[float, float] | None = None,
    along: Mapping[NetworkNumber, Sequence[float]] | None = None,
    between: tuple[float, float] | None = None,
    most: int = 1000,
    check: bool = False,
    **checking: Any,
) -> Answer:
    """The depth, gain, skip strength, bias variance or activation scale at which a network does what you ask for.

    - `solve("depth", spec, inputs, condition=10)`: the least depth at which the condition number of the kernel of
      `inputs` is at most 10 (`kind="ntk"` for the NTK);
    - `solve("depth", spec, inputs, cosines=(0, 0.9))`: the largest depth that keeps all cosines in a band;
    - `solve("depth", spec, inputs, gradients=(0.1, 10))`: the same for the gradient at the input over that at the
      output;
    - `solve("gain", spec)`, and `"gamma"`, `"bias_variance"`, `"activation_gain"`: the value at the edge of chaos;
    - `solve("gain", spec, along={"bias_variance": [0.01, 0.1]})`: the edge as a curve.

    Args:
        unknown: what to solve for.
        spec: the network; what is solved for is replaced.
        inputs: the batch `(n, d)`.
        gram: or its Gram matrix, for bands.
        condition, cosines, gradients: what is asked of a depth; one of them.
        kind: of the kernel.
        along: a second number of the network with values.
        between: where a number is looked for.
        most: the largest depth for bands.
        check: simulate the answer at finite width too, which needs torch.
        checking: `width`, `runs` and `seed` of that simulation.

    Returns:
        An `Answer`.

    Example:
        >>> from isometer import Spec, solve
        >>> round(solve("gain", Spec(width=100, depth=50, activation="erf")).value, 9)  # √π/2
        0.886226925
    """
    if unknown == "depth":
        answer = _depth(spec, inputs, gram, condition, kind, cosines, gradients, most)
    elif condition is not None or cosines is not None or gradients is not None:
        raise IsometerError(f"a condition number or a band determines a depth, not {unknown} — solve for depth")
    elif along is None:
        answer = edge_of(spec, unknown, between=between)
    elif len(along) != 1:
        raise IsometerError(f"along has {len(along)} names; expected one, with its values")
    else:
        [(name, values)] = along.items()
        answer = edge_curve(spec, unknown, name, list(values), between=between)
    if not check:
        return answer
    from isometer.solvers._check import checked

    return checked(answer, inputs, gram, kind if condition is not None else None, **checking)


def _depth(
    spec: Spec,
    inputs: ArrayLike | None,
    gram: ArrayLike | None,
    condition: float | None,
    kind: Literal["nngp", "ntk"],
    cosines: tuple[float, float] | None,
    gradients: tuple[float, float] | None,
    most: int,
) -> Answer:
    asked = [name for name, one in (("condition", condition), ("cosines", cosines), ("gradients", gradients)) if one]
    if len(asked) != 1:
        came = " and ".join(asked) or "nothing"
        raise IsometerError(
            f"a depth is asked for {came}; expected one of condition, cosines and gradients — condition=10, say"
        )
    if condition is not None:
        if inputs is None:
            raise IsometerError("a condition number is that of a batch; expected inputs — pass an (n, d) array")
        return least_depth(spec, inputs, condition=condition, kind=kind)
    band = cosines if cosines is not None else gradients
    assert band is not None
    keep: Literal["cosines", "gradients"] = "cosines" if cosines is not None else "gradients"
    return largest_depth(spec, inputs, gram=gram, keep=keep, band=band, most=most)
