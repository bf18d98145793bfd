"""The steps that a network is composed of: a small closed set of immutable values.

A step takes features and hands on features. With x `(samples, positions, features)` (one position where there is no
space or sequence):

| step | what it does |
|---|---|
| `Dense` | x ↦ x Wᵀ, W of a random law, the same at every position |
| `Bias` | x ↦ x + b, b from N(0, variance), one number per feature |
| `Act` | x ↦ φ(αx), entry by entry |
| `Norm` | a normalisation over the batch, the features or groups of features |
| `Scaling` | x ↦ c·x |
| `Residual` | x ↦ skip·x + scale·branch(x) |
| `Join` | the sum, the product or the concatenation of what several branches make of x |
| `Repeat` | a body several times, each time with weights of its own |
| `Convolution` | a weighted sum over neighbouring positions, channels mixed by random weights |
| `Pool` | the mean or the maximum over windows of positions, or over all of them |
| `Upsample` | every position several times |
| `Flatten` | positions become features |
| `Dropout`, `Noise` | entries dropped at random; random numbers added to entries |
| `Attention`, `Embedding`, `Positions` | parts of transformers |

A number that may change with depth is a `Schedule`: its layer ℓ is the turn of the nearest `Repeat` around it, and its
depth L how many turns that has (1 and 1 outside of any).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from isometer.checks import DEEPEST, whole_number
from isometer.spec._activation import activation_text
from isometer.spec._checks import SpecError, number, one_of, whole
from isometer.spec._norm import Norm
from isometer.spec._schedule import PowerLaw, Schedule

WEIGHT_LAWS = (
    "gaussian",
    "uniform",
    "orthogonal",
    "xavier-normal",
    "xavier-uniform",
    "he",
    "pytorch",
    "asymmetric",
    "orthogonalized-xavier",
)
"""The laws of random weights."""
Padding = Literal["circular", "zeros", "reflect", "valid"]
_PADDINGS = ("circular", "zeros", "reflect", "valid")


def _put(step: Any, name: str, value: Any) -> None:
    """The one way into a frozen value."""
    object.__setattr__(step, name, value)


def checked_schedule(value: Any, name: str, *, infinite: bool = False) -> Schedule:
    """A number, one per turn, or a power law."""
    if isinstance(value, PowerLaw):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise SpecError(f"{name} is empty; expected a number, or one per layer — pass one")
        return tuple(number(one, name, infinite=infinite) for one in value)
    return number(value, name, infinite=infinite)


def _checked_law(law: Any, scaling: Any) -> None:
    one_of(law, WEIGHT_LAWS, "weights")
    one_of(scaling, ("fan_in", "unit"), "weight_scaling")
    if scaling == "unit" and law not in ("gaussian", "uniform"):
        raise SpecError(
            f"weight_scaling='unit' with weights={law!r}; expected gaussian or uniform weights, the other laws set "
            "their own variance — use gain"
        )


def _optional_width(value: Any, name: str) -> int | None:
    return None if value is None else whole(value, name, "pass a number of features, or none to keep it")


@dataclass(frozen=True)
class Dense:
    """x ↦ x Wᵀ, W a random matrix; the same W at every position.

    Args:
        width: features that leave; as many as enter by default.
        gain: factor of the weights.
        weights: the law of W, one of `WEIGHT_LAWS` (`Chain` says what each is).
        weight_scaling: `"unit"` drops the fan_in from `gaussian` and `uniform`.

    Example:
        >>> Dense(64).width, Dense().width is None
        (64, True)
    """

    width: int | None = None
    gain: Schedule = 1.0
    weights: str = "gaussian"
    weight_scaling: Literal["fan_in", "unit"] = "fan_in"

    def __post_init__(self) -> None:
        _put(self, "width", _optional_width(self.width, "width"))
        _put(self, "gain", checked_schedule(self.gain, "gain"))
        _checked_law(self.weights, self.weight_scaling)


@dataclass(frozen=True)
class Bias:
    """x ↦ x + b with b from N(0, variance), one number per feature, the same for all samples and positions.

    Example:
        >>> Bias(0.1).variance
        0.1
    """

    variance: float

    def __post_init__(self) -> None:
        _put(self, "variance", number(self.variance, "bias", low=0.0))


@dataclass(frozen=True)
class Act:
    """x ↦ φ(αx), entry by entry.

    Args:
        activation: φ as text for `isometer.activation`, or `"import:package.module:function"` for a callable.
        gain: α.

    Example:
        >>> Act("gelu").activation
        'gelu'
    """

    activation: str
    gain: Schedule = 1.0

    def __post_init__(self) -> None:
        _put(self, "activation", activation_text(self.activation))
        _put(self, "gain", checked_schedule(self.gain, "gain"))


@dataclass(frozen=True)
class Scaling:
    """x ↦ factor·x; `"1/sqrt(width)"` divides by the root of the number of features.

    Example:
        >>> Scaling("1/sqrt(width)").factor
        '1/sqrt(width)'
    """

    factor: Schedule | Literal["1/sqrt(width)"]

    def __post_init__(self) -> None:
        if self.factor != "1/sqrt(width)":
            _put(self, "factor", checked_schedule(self.factor, "scale"))


@dataclass(frozen=True)
class Residual:
    """x ↦ skip·x + scale·branch(x).

    Args:
        branch: the steps of the branch.
        scale: γ, the factor of the branch; `inf` leaves out the skip and keeps the branch as it is.
        skip: the factor of x.

    Example:
        >>> Residual((Act("relu"), Dense()), scale=0.3).skip
        1.0
    """

    branch: tuple[Step, ...]
    scale: Schedule = 1.0
    skip: Schedule = 1.0

    def __post_init__(self) -> None:
        _put(self, "branch", checked_steps(self.branch, "the branch of residual"))
        _put(self, "scale", checked_schedule(self.scale, "residual", infinite=True))
        _put(self, "skip", checked_schedule(self.skip, "skip"))


@dataclass(frozen=True)
class Join:
    """What several branches make of the same x, joined.

    Args:
        branches: the steps of each.
        by: `"sum"`, `"product"` (gated units) or `"concat"` (features side by side).

    Example:
        >>> Join(((Dense(8),), (Dense(8), Act("sigmoid"))), by="product").by
        'product'
    """

    branches: tuple[tuple[Step, ...], ...]
    by: Literal["sum", "product", "concat"] = "sum"

    def __post_init__(self) -> None:
        one_of(self.by, ("sum", "product", "concat"), "join")
        branches = tuple(checked_steps(branch, f"a branch of {self.by}", least=0) for branch in self.branches)
        if len(branches) < 2:
            raise SpecError(f"{self.by} has {len(branches)} branches; expected at least 2 — add one, or drop it")
        _put(self, "branches", branches)


@dataclass(frozen=True)
class Repeat:
    """A body several times in a row, each time with weights of its own.

    Example:
        >>> Repeat((Dense(), Act("relu")), 24).times
        24
    """

    body: tuple[Step, ...]
    times: int

    def __post_init__(self) -> None:
        _put(self, "body", checked_steps(self.body, "the body of repeat"))
        fix = "pass how often the body is repeated"
        _put(self, "times", whole_number(self.times, "times", high=DEEPEST, fix=fix, error=SpecError))


def _sizes(value: Any, name: str) -> tuple[int, ...]:
    """One number per axis of the positions."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    found = tuple(whole(one, name, "pass one whole number per axis of the positions") for one in given)
    if len(found) not in (1, 2):
        raise SpecError(f"{name} has {len(found)} numbers; expected one or two, one per axis of the positions")
    return found


@dataclass(frozen=True)
class Convolution:
    """A convolution with random weights: W at every offset of the kernel, of variance gain²/(fan_in · offsets).

    Args:
        kernel: its size along each axis of the positions.
        channels: features that leave; as many as enter by default.
        padding: `"circular"`, `"zeros"`, `"reflect"`, or `"valid"` for none.
        stride: stride of the positions that are kept.
        dilation: distance of neighbouring offsets.
        groups: number of groups of channels that do not mix; as many as channels for a depthwise convolution.
        gain: factor of the weights.
        weights: their law, `"gaussian"` or `"orthogonal"` (the whole kernel as one matrix) or `"delta-orthogonal"`
            (an orthogonal matrix at the centre, zero elsewhere).

    Example:
        >>> Convolution(3, 64).padding
        'circular'
    """

    kernel: tuple[int, ...]
    channels: int | None = None
    padding: Padding = "circular"
    stride: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    gain: Schedule = 1.0
    weights: Literal["gaussian", "orthogonal", "delta-orthogonal"] = "gaussian"

    def __post_init__(self) -> None:
        for name in ("kernel", "stride", "dilation"):
            _put(self, name, _sizes(getattr(self, name), name))
        _put(self, "channels", _optional_width(self.channels, "channels"))
        one_of(self.padding, _PADDINGS, "padding")
        one_of(self.weights, ("gaussian", "orthogonal", "delta-orthogonal"), "weights")
        _put(self, "groups", whole(self.groups, "groups", "pass the number of groups of channels"))
        _put(self, "gain", checked_schedule(self.gain, "gain"))


@dataclass(frozen=True)
class Pool:
    """The mean or the maximum over windows of positions; over all positions unless `size` is given.

    Example:
        >>> Pool("mean").size is None, Pool("max", 2).stride
        (True, (2,))
    """

    by: Literal["mean", "max"] = "mean"
    size: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        one_of(self.by, ("mean", "max"), "pool")
        if self.size is None:
            if self.stride is not None:
                raise SpecError("pool has a stride but no size; expected a size — or drop both to pool over everything")
            return
        _put(self, "size", _sizes(self.size, "size"))
        _put(self, "stride", self.size if self.stride is None else _sizes(self.stride, "stride"))


@dataclass(frozen=True)
class Upsample:
    """Every position `repeats` times along each axis of positions: the nearest one of a coarser grid.

    Example:
        >>> Upsample(2).repeats
        (2,)
    """

    repeats: tuple[int, ...]

    def __post_init__(self) -> None:
        _put(self, "repeats", _sizes(self.repeats, "repeats"))


@dataclass(frozen=True)
class Flatten:
    """Positions become features: `(positions, features)` ↦ `(1, positions · features)`.

    Example:
        >>> Flatten() == Flatten()
        True
    """


@dataclass(frozen=True)
class Attention:
    """Multi-head self-attention over positions.

    Scores are `score_scale · ⟨q, k⟩` with q and k of `head_width` features; the default scale is 1/√head_width.

    Args:
        heads: number of heads.
        head_width: features of a head; width / heads by default.
        qk_gain: factor of query and key weights, whose entries have variance gain²/width; with `qk_norm` the factor of
            the norm instead, after weights of variance 1/width.
        value_gain: factor of the value weights.
        output_gain: factor of the output weights.
        causal: a position sees itself and those before it only.
        kind: `"softmax"` or `"linear"` (scores as they are, over the number of positions that a position sees).
        qk_norm: a root-mean-square norm of queries and keys.
        rotary: rotary positions: pairs of features of queries and keys are turned by position · base^(−2p/head_width),
            p = 0, 1, …; heads need an even width.
        rotary_base: base.
        key_heads: heads of keys and values, fewer than `heads` for grouped keys; as many by default.
        weights: `"gaussian"` or `"orthogonal"`, of value and output.
        score_scale: factor of the scores.

    Example:
        >>> Attention(heads=8, qk_gain=0.5).causal
        False
    """

    heads: int = 1
    head_width: int | None = None
    qk_gain: Schedule = 1.0
    value_gain: Schedule = 1.0
    output_gain: Schedule = 1.0
    causal: bool = False
    kind: Literal["softmax", "linear"] = "softmax"
    qk_norm: bool = False
    rotary: bool = False
    key_heads: int | None = None
    weights: Literal["gaussian", "orthogonal"] = "gaussian"
    score_scale: float | None = None
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        _put(self, "heads", whole(self.heads, "heads", "pass the number of heads"))
        for name in ("head_width", "key_heads"):
            _put(self, name, _optional_width(getattr(self, name), name))
        for name in ("qk_gain", "value_gain", "output_gain"):
            _put(self, name, checked_schedule(getattr(self, name), name))
        one_of(self.kind, ("softmax", "linear"), "kind")
        one_of(self.weights, ("gaussian", "orthogonal"), "weights")
        if self.key_heads is not None and self.heads % self.key_heads:
            raise SpecError(f"key_heads is {self.key_heads}; expected a divisor of heads, {self.heads} — change either")
        if self.score_scale is not None:
            _put(self, "score_scale", number(self.score_scale, "score_scale"))
        _put(self, "rotary_base", number(self.rotary_base, "rotary_base", low=1.0))
        if self.rotary and self.head_width is not None and self.head_width % 2:
            raise SpecError(
                f"rotary positions rotate pairs of features, and heads have {self.head_width}; expected an "
                "even number — set head_width"
            )

    @property
    def rotary_angles(self) -> tuple[float, ...]:
        """By how much one position rotates each pair of features, when executed; empty without rotary positions."""
        if not self.rotary:
            return ()
        assert self.head_width is not None
        return tuple(self.rotary_base ** (-at / self.head_width) for at in range(0, self.head_width, 2))


@dataclass(frozen=True)
class Embedding:
    """Random vectors of unit mean square for tokens: the input is a number per position.

    Example:
        >>> Embedding(1000).tokens
        1000
    """

    tokens: int
    gain: float = 1.0

    def __post_init__(self) -> None:
        _put(self, "tokens", whole(self.tokens, "tokens", "pass the size of the vocabulary"))
        _put(self, "gain", number(self.gain, "gain"))


@dataclass(frozen=True)
class Positions:
    """A vector per position is added: `"learned"` is random and independent, `"sinusoidal"` fixed; both scaled.

    Example:
        >>> Positions().kind
        'learned'
    """

    kind: Literal["learned", "sinusoidal"] = "learned"
    gain: float = 1.0

    def __post_init__(self) -> None:
        one_of(self.kind, ("learned", "sinusoidal"), "positions")
        _put(self, "gain", number(self.gain, "gain"))


@dataclass(frozen=True)
class Dropout:
    """x ↦ x·m/(1 − rate), m entries that are 0 with probability `rate` and 1 otherwise.

    Example:
        >>> Dropout(0.1).rate
        0.1
    """

    rate: float

    def __post_init__(self) -> None:
        _put(self, "rate", number(self.rate, "rate", low=0.0))
        if not self.rate < 1:
            raise SpecError(f"rate is {self.rate}; expected a probability below 1 — 0.1 drops one entry in ten")


@dataclass(frozen=True)
class Noise:
    """x ↦ x + z with z from N(0, variance), a number of its own for every entry of every sample.

    Example:
        >>> Noise(0.01).variance
        0.01
    """

    variance: float

    def __post_init__(self) -> None:
        _put(self, "variance", number(self.variance, "noise", low=0.0))


Step = (
    Dense
    | Bias
    | Act
    | Norm
    | Scaling
    | Residual
    | Join
    | Repeat
    | Convolution
    | Pool
    | Upsample
    | Flatten
    | Attention
    | Embedding
    | Positions
    | Dropout
    | Noise
)
"""The type of a step of a composition."""
STEPS: tuple[type, ...] = Step.__args__
Weighted = Dense | Convolution | Attention
"""The type of a step with a weight matrix."""


def checked_steps(steps: Any, where: str, *, least: int = 1) -> tuple[Step, ...]:
    """A sequence of steps, `least` of them at least."""
    found = steps if isinstance(steps, Sequence) and not isinstance(steps, str) else (steps,)
    for step in found:
        if not isinstance(step, STEPS):
            raise SpecError(f"{where} has {step!r}; expected a step such as Dense(64) or Act('relu')")
    if len(found) < least:
        raise SpecError(f"{where} has no steps; expected at least one — add one, or drop it")
    return tuple(found)


def parts(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The sequences of steps inside a step.

    Example:
        >>> parts(Repeat((Dense(),), 3))
        ((Dense(width=None, gain=1.0, weights='gaussian', weight_scaling='fan_in'),),)
        >>> parts(Dense())
        ()
    """
    match step:
        case Residual():
            return (step.branch,)
        case Repeat():
            return (step.body,)
        case Join():
            return step.branches
        case _:
            return ()


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step, those inside other steps included, bodies of repeats once.

    Example:
        >>> [type(step).__name__ for step in walk((Repeat((Dense(), Act("relu")), 3),))]
        ['Repeat', 'Dense', 'Act']
    """
    for step in steps:
        yield step
        for inner in parts(step):
            yield from walk(inner)


def has_weights(steps: Sequence[Step]) -> bool:
    """Whether any of the steps has a weight matrix.

    Example:
        >>> has_weights((Residual((Dense(),)),)), has_weights((Act("relu"),))
        (True, False)
    """
    return any(isinstance(step, Dense | Convolution | Attention) for step in walk(steps))
