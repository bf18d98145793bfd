"""The exponents that theory gives: how sizes depend on width n and depth L in each parametrisation.

**Width** (Yang et al. 2022, Tensor Programs V, tables 3 and 8). A weight matrix of a group starts with entries of size
n^init and is trained with a rate of size n^rate. Sums of n independent terms grow like √n, sums of n aligned terms like
n. An update is aligned with its input, because it is made of it. So, per coordinate, with δ the gradient by the layer's
output:

- the output at the start: n^init for a fixed number of inputs, n^(init + ½) for n inputs;
- δ: 1 at the output, n^(init of the output layer) below it, since a hidden layer passes sizes on;
- the gradient by an entry: δ times an activation of size 1;
- the update of an entry: n^rate with Adam, n^rate · gradient with SGD;
- what the update changes in the layer's own output: the update for a fixed number of inputs, n times it for n inputs;
- what that changes in the logits: n · δ · (change), since both are aligned; for the output layer the change itself.

Feature learning at every width needs changes of size 1 everywhere.

**Depth** (Bordelon et al. 2023; Yang et al. 2023, Tensor Programs VI; Dey et al. 2025, CompleteP). A residual network
h ← h + L^(−α) f(h) adds L independent branches at the start, and L aligned changes in training. With a rate of size
L^rate for the weights in the branches, f normalised:

- a branch: L^(−α); the stream after L of them: L^(½ − α), not below 1;
- the gradient by an entry in a branch: L^(−α), once the stream has size 1;
- the change of a branch's layers by their own update: the update, as above;
- the change of the stream: L · L^(−α) · that.

A stream that changes by 1 needs changes of L^(α − 1) in the layers. Only at α = 1 do the layers themselves change by
1, so that none is linearised as depth grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isometer.errors import unknown_name

INPUT, EMBEDDING, HIDDEN, OUTPUT, VECTOR, FIXED = "input", "embedding", "hidden", "output", "vector", "fixed"
GROUPS = (INPUT, EMBEDDING, HIDDEN, OUTPUT, VECTOR, FIXED)
"""Groups of parameters, by which of their axes grow with the width."""
ADAPTIVE, GRADIENT = "adaptive", "gradient"
"""Kinds of optimizers: the size of the update does not depend on that of the gradient, or is proportional to it."""
_SUMS = {HIDDEN, OUTPUT}  # groups whose layers sum over n inputs


@dataclass(frozen=True)
class Parametrisation:
    """How initial weights, learning rates and branches depend on width n and depth L.

    Example:
        >>> [PARAMETRISATIONS[name].width("update", "hidden", "adaptive") for name in ("standard", "mup")]
        [1.0, 0.0]

    Attributes:
        name: as people write it.
        reference: where it comes from.
        init: exponent of n of the entries of a group.
        rates: exponent of n of the rate, by kind of optimizer and group.
        alpha: branches are multiplied by L^−alpha.
        depth_rates: exponent of L of the rate of weights in branches, by kind of optimizer.
    """

    name: str
    reference: str
    init: Mapping[str, float]
    rates: Mapping[str, Mapping[str, float]]
    alpha: float
    depth_rates: Mapping[str, float]

    def width(self, quantity: str, group: str, kind: str) -> float | None:
        """The exponent of n, None where theory gives none.

        Args:
            quantity: `activation`, `gradient`, `update`, `relative_update`, `logits` or `logits_change`.
            group: group of parameters; not read for logits.
            kind: kind of optimizer, `adaptive` or `gradient`.

        Example:
            >>> standard = PARAMETRISATIONS["standard"]
            >>> standard.width("logits_change", "", "adaptive"), standard.width("logits_change", "", "gradient")
            (1.5, 1.0)
        """
        if quantity == "logits":
            return self._start(OUTPUT)
        if quantity == "logits_change":
            moving = (INPUT, HIDDEN, OUTPUT)
            return max(self._reach(one, kind) for one in moving)
        if group not in GROUPS:
            return None
        found = {
            "activation": self._start(group) if group not in (VECTOR, FIXED) else None,
            "gradient": self._gradient(group),
            "update": self._effect(group, kind),
            "relative_update": self._update(group, kind) - self.init.get(group, 0.0) if group in self.init else None,
        }
        return found.get(quantity)

    def _start(self, group: str) -> float:
        return self.init[group] + (0.5 if group in _SUMS else 0.0)

    def _gradient(self, group: str) -> float:
        return 0.0 if group in (OUTPUT, FIXED) else self.init[OUTPUT]

    def _update(self, group: str, kind: str) -> float:
        rate = self.rates[kind].get(group, 0.0)
        return rate if kind == ADAPTIVE else rate + self._gradient(group)

    def _effect(self, group: str, kind: str) -> float:
        return self._update(group, kind) + (1.0 if group in _SUMS else 0.0)

    def _reach(self, group: str, kind: str) -> float:
        effect = self._effect(group, kind)
        return effect if group == OUTPUT else 1.0 + self.init[OUTPUT] + effect

    def depth(self, quantity: str, in_branches: bool, kind: str) -> float | None:
        """The exponent of L in a residual network with normalised branches, None where theory gives none.

        Args:
            quantity: `branch`, `stream`, `stream_change`, `logits_change`, `activation` or `update`.
            in_branches: whether the parameters are those of residual branches; not read for the others.
            kind: kind of optimizer, `adaptive` or `gradient`.

        Example:
            >>> [PARAMETRISATIONS[name].depth("update", True, "adaptive") for name in ("depth-mup", "completep")]
            [-0.5, 0.0]
        """
        if quantity == "branch":
            return 0.0 - self.alpha
        if quantity == "stream":
            return max(0.0, 0.5 - self.alpha)
        if quantity == "activation":
            return 0.0
        bounded = self.alpha >= 0.5
        if kind == GRADIENT and not bounded:
            return None  # gradients depend on where norms are
        own = self.depth_rates[kind] - (self.alpha if kind == GRADIENT else 0.0)
        if quantity == "update":
            return own if in_branches else 0.0
        if quantity == "stream_change":
            return own - self.alpha + 1.0
        if quantity == "logits_change":
            return 0.0 if bounded else None  # with a norm before the output ½, without one 1
        return None


def _exponents(**values: float) -> Mapping[str, float]:
    return MappingProxyType(values)


_STANDARD_INIT = _exponents(input=0.0, embedding=0.0, hidden=-0.5, output=-0.5)
_MUP_INIT = _exponents(input=0.0, embedding=0.0, hidden=-0.5, output=-1.0)
_ONE_RATE = MappingProxyType({ADAPTIVE: _exponents(), GRADIENT: _exponents()})
_MUP_RATES = MappingProxyType(
    {
        ADAPTIVE: _exponents(hidden=-1.0, output=-1.0),
        GRADIENT: _exponents(input=1.0, embedding=1.0, vector=1.0, output=-1.0),
    }
)
_NO_DEPTH = MappingProxyType({ADAPTIVE: 0.0, GRADIENT: 0.0})

PARAMETRISATIONS: Mapping[str, Parametrisation] = MappingProxyType(
    {
        "standard": Parametrisation(
            "standard", "Glorot and Bengio 2010; He et al. 2015", _STANDARD_INIT, _ONE_RATE, 0.0, _NO_DEPTH
        ),
        "mup": Parametrisation(
            "muP", "Yang et al. 2022, Tensor Programs V, tables 3 and 8", _MUP_INIT, _MUP_RATES, 0.0, _NO_DEPTH
        ),
        "depth-mup": Parametrisation(
            "depth-muP",
            "Bordelon et al. 2023; Yang et al. 2023, Tensor Programs VI",
            _MUP_INIT,
            _MUP_RATES,
            0.5,
            MappingProxyType({ADAPTIVE: -0.5, GRADIENT: 0.0}),
        ),
        "completep": Parametrisation(
            "CompleteP",
            "Dey et al. 2025, table 1",
            _MUP_INIT,
            _MUP_RATES,
            1.0,
            MappingProxyType({ADAPTIVE: 0.0, GRADIENT: 1.0}),
        ),
    }
)
"""The parametrisations that a check compares with, by the name that `aim` takes."""


def parametrisation(name: str) -> Parametrisation:
    """The parametrisation of that name.

    Raises:
        IsometerError: there is none.

    Example:
        >>> parametrisation("completep").alpha
        1.0
    """
    if name not in PARAMETRISATIONS:
        raise unknown_name("parametrisation", name, PARAMETRISATIONS)
    return PARAMETRISATIONS[name]


def optimizer_kind(name: str) -> str:
    """Whether an optimizer's update has the size of its rate or that of the gradient.

    Example:
        >>> optimizer_kind("adamw"), optimizer_kind("sgd")
        ('adaptive', 'gradient')
    """
    return GRADIENT if name.lower() in ("sgd", "asgd") else ADAPTIVE
