"""`isometer.solve`: one question, one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer.solvers._answer import Answer
from isometer.solvers._bands import largest_depth
from isometer.solvers._conditioning import least_depth
from isometer.solvers._edge import edge_curve, edge_of
from isometer.solvers._tokens import (
    COLLAPSED,
    TOKEN_NUMBERS,
    TokenNumber,
    bounded_update,
    critical_number,
    deepnorm,
    depth_of_cosine,
    entropy_collapse,
)
from isometer.spec import Spec
from isometer.spec._edits import NetworkNumber

if TYPE_CHECKING:
    from isometer.solvers._token_check import TokenQuestion


def solve(
    unknown: Literal["depth", "deepnorm"] | NetworkNumber | TokenNumber,
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
    token_cosine: float | None = None,
    entropy: float | None = None,
    update: float | None = None,
    cosine: float = 0.0,
    check: bool = False,
    **checking: Any,
) -> Answer:
    """The depth, gain, skip strength, bias variance or activation scale that gives a network the property you choose.

    - `solve("depth", spec, inputs, condition=10)`: the least depth at which the condition number of the kernel of
      `inputs` is at most 10 (`kind="ntk"` for the NTK);
    - `solve("depth", spec, inputs, cosines=(0, 0.9))`: the largest depth that keeps all cosines in a band;
    - `solve("depth", spec, inputs, gradients=(0.1, 10))`: the same for the gradient at the input over that at the
      output;
    - `solve("gain", spec)`, and `"gamma"`, `"bias_variance"`, `"activation_gain"`: the value at the edge of chaos;
    - `solve("gain", spec, along={"bias_variance": [0.01, 0.1]})`: the edge as a curve.

    For transformers with full attention and tokens whose pairs all have the same cosine:

    - `solve("depth", spec, token_cosine=0.99)`: the least number of blocks at which the cosine of tokens reaches 0.99;
    - `solve("skip", spec)`, or `"branch"`: the strength at which tokens that are nearly alike neither part nor merge;
    - `solve("qk_gain", spec, entropy=0.1)`: the gain of queries and keys from which on the entropy of attention is
      below a share of log T, 0.1 by default;
    - `solve("branch", spec, update=100)`: the strength at which a step of gradient descent of rate η moves the
      function by 100 η;
    - `solve("deepnorm", spec)`: α beside branches and β of weights.

    Args:
        unknown: what to solve for: `"depth"`, or one of the numbers above.
        spec: the network; what is solved for is replaced.
        inputs: the batch `(n, d)`; for the edge of chaos only its mean square matters, 1 by default.
        gram: or its Gram matrix, for bands and the edge.
        condition, cosines, gradients: the requirement on a depth; one of them.
        kind: kind of the kernel.
        along: a second number of the network with values.
        between: where a number is looked for.
        most: the largest depth for bands and for `token_cosine`.
        token_cosine, entropy, update: the requirement on a transformer.
        cosine: cosine of two tokens at its input.
        check: simulate the answer at finite width too, which needs torch.
        checking: `width`, `runs` and `seed` of that simulation; transformers keep their own width.

    Returns:
        An `Answer`.

    Example:
        >>> from isometer import Spec, solve
        >>> round(solve("gain", Spec(width=100, depth=50, activation="erf")).value, 9)  # √π/2
        0.886226925
    """
    if unknown in ("deepnorm", *TOKEN_NUMBERS) or token_cosine is not None:
        answer, about = _tokens(unknown, spec, token_cosine, entropy, update, cosine, between, most)
        return _checked_tokens(answer, about, cosine, **checking) if check else answer
    if entropy is not None or update is not None:
        raise IsometerError(f"entropy and update apply to transformers, not to {unknown} — solve for qk_gain or branch")
    if unknown == "depth":
        answer = _depth(spec, inputs, gram, condition, kind, cosines, gradients, most)
    elif condition is not None or cosines is not None or gradients is not None:
        raise IsometerError(f"a condition number or a band determines a depth, not {unknown} — solve for depth")
    else:
        answer = _edge(spec, cast("NetworkNumber", unknown), along, between, _mean_square(inputs, gram))
    if not check:
        return answer
    from isometer.solvers._check import checked, checked_curve

    if along is not None and unknown != "depth":
        return checked_curve(answer, inputs, gram, **checking)
    return checked(answer, inputs, gram, kind if condition is not None else None, **checking)


def _edge(
    spec: Spec,
    unknown: NetworkNumber,
    along: Mapping[NetworkNumber, Sequence[float]] | None,
    between: tuple[float, float] | None,
    mean_square: float,
) -> Answer:
    if along is None:
        return edge_of(spec, unknown, between=between, mean_square=mean_square)
    if len(along) != 1:
        raise IsometerError(f"along has {len(along)} names; expected one, with its values")
    [(name, values)] = along.items()
    return edge_curve(spec, unknown, name, list(values), between=between, mean_square=mean_square)


def _mean_square(inputs: ArrayLike | None, gram: ArrayLike | None) -> float:
    """Of the features of a batch; 1 where none is given. It decides where several fixed points compete."""
    if inputs is not None:
        return float((np.asarray(inputs, dtype=float) ** 2).mean())
    return 1.0 if gram is None else float(np.diag(np.asarray(gram, dtype=float)).mean())


def _tokens(
    unknown: str,
    spec: Spec,
    token_cosine: float | None,
    entropy: float | None,
    update: float | None,
    cosine: float,
    between: tuple[float, float] | None,
    most: int,
) -> tuple[Answer, TokenQuestion]:
    asked = [name for name, one in (("token_cosine", token_cosine), ("entropy", entropy), ("update", update)) if one]
    fits = {"depth": ("token_cosine",), "qk_gain": ("entropy", "update"), "deepnorm": ()}.get(unknown, ("update",))
    if len(asked) > 1 or not set(asked) <= set(fits):
        raise IsometerError(
            f"{unknown} and {' and '.join(asked)} are given; expected {' or '.join(fits) or 'neither'}, at most one"
        )
    if token_cosine is not None:
        return depth_of_cosine(spec, token_cosine, cosine=cosine, most=most), "depth"
    if unknown == "deepnorm":
        return deepnorm(spec, cosine=cosine), "growth"
    number = cast("TokenNumber", unknown)
    if update is not None:
        return bounded_update(spec, number, update, cosine=cosine, between=between), "growth"
    if unknown == "qk_gain":
        share = COLLAPSED if entropy is None else entropy
        return entropy_collapse(spec, share=share, cosine=cosine, between=between), "entropy"
    return critical_number(spec, number, between=between), "critical"


def _checked_tokens(answer: Answer, about: TokenQuestion, cosine: float, **checking: Any) -> Answer:
    from isometer.solvers._token_check import token_checked

    checking.pop("width", None)
    return token_checked(answer, about, cosine=cosine, **checking)


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
        came = f"{' and '.join(asked)} are" if asked else "none is"
        raise IsometerError(
            f"a depth needs exactly one condition, and {came} given; expected condition, cosines or gradients — "
            "condition=10, for example"
        )
    if condition is not None:
        if inputs is None:
            raise IsometerError("a condition number is that of a batch; expected inputs — pass an (n, d) array")
        return least_depth(spec, inputs, condition=condition, kind=kind)
    band = cosines if cosines is not None else gradients
    assert band is not None
    keep: Literal["cosines", "gradients"] = "cosines" if cosines is not None else "gradients"
    return largest_depth(spec, inputs, gram=gram, keep=keep, band=band, most=most)
