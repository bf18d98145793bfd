"""The state of every lab as the query of a URL: read, checked, brought within the limits, and written back.

What a browser sends is text that anyone may have typed. Nothing is computed from it before it has become one of the
frozen states below, whose numbers are within `LIMITS` whatever the text says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlencode

from isometer.errors import unknown_name
from isometer.metrics import METRICS
from isometer.metrics._catalogue import added

__all__ = [
    "LIMITS",
    "ActivationState",
    "ClinicState",
    "DepthState",
    "StartState",
    "State",
    "split_names",
]


@dataclass(frozen=True)
class Limit:
    """The least and the largest value that is computed."""

    low: float
    high: float

    def clamp(self, value: float) -> float:
        """The nearest value within.

        Example:
            >>> LIMITS["depth"].clamp(10**9)
            500
        """
        return min(max(value, self.low), self.high)


LIMITS: dict[str, Limit] = {
    "depth": Limit(1, 500),
    "width": Limit(2, 500),
    "batch": Limit(3, 50),
    "runs": Limit(2, 50),
    "kept": Limit(0, 20_000_000),  # numbers that a run's backward pass keeps; depth gives way
    "seconds": Limit(0, 20),  # of one computation
    "examination": Limit(0, 90),  # seconds of a doctor's examination with a stress test
    "layers": Limit(1, 200),  # of the kernel map's iterates
    "rho": Limit(-1, 1),
    "gain": Limit(0.05, 10),
    "residual": Limit(0.001, 100),
    "sigma_w": Limit(0.5, 3),
    "sigma_b": Limit(0, 1),
    "blocks": Limit(1, 200),
    "tokens": Limit(2, 512),
    "qk_gain": Limit(0.1, 10),
    "branch": Limit(0, 1),
    "mlp_gain": Limit(0.2, 4),
    "cosine": Limit(0, 0.99),
    "seed": Limit(0, 9999),
    "activations": Limit(1, 6),
    "text": Limit(0, 200),  # characters of an expression or a filter
    "network": Limit(0, 1000),  # characters of a network
    "against": Limit(0, 1500),  # characters of a network that is compared with
    "steps": Limit(1, 2000),  # of a network, as they are executed
    "features": Limit(1, 2048),  # inside a network, positions included
    "query": Limit(0, 4000),  # characters of a URL's query
    "upload": Limit(0, 16_000_000),  # bytes of a report or a model
    "uploads": Limit(0, 12),  # reports and models that are kept
    "report_layers": Limit(0, 5000),
    "page": Limit(1, 1000),
    "step": Limit(1, 3),  # of a guided experiment
}
"""Everything that is bounded, in one place."""

GRAM_LAWS = ("gaussian", "orthogonal")


class Problem(ValueError):
    """A value that cannot be read; the default takes its place and the text is shown."""


Reader = Callable[[str], Any]
"""Reads a value of the address: text to a value, or an error that says what was expected."""


def whole(name: str) -> Reader:
    """Reads a whole number within a limit."""
    limit = LIMITS[name]

    def read(text: str) -> tuple[Any, str | None]:
        value = _number(name, text)
        if value != int(value):
            raise Problem(f"{name} is {text[:20]!r}; expected a whole number")
        return _within(name, int(value), limit)

    return read


def real(name: str) -> Reader:
    """Reads a number within a limit."""
    return lambda text: _within(name, _number(name, text), LIMITS[name])


def optional(name: str) -> Reader:
    """Reads a number within a limit, or nothing."""
    return lambda text: (None, None) if not text.strip() else real(name)(text)


def choice(name: str, options: tuple[str, ...]) -> Reader:
    """Reads one of several words."""

    def read(text: str) -> tuple[Any, str | None]:
        if text not in options:
            raise unknown_name(name, text, [option or "(none)" for option in options], error=Problem)
        return text, None

    return read


def line(name: str) -> Reader:
    """Reads a line of text of limited length, without control characters."""
    longest = int(LIMITS[name if name in ("network", "against") else "text"].high)

    def read(text: str) -> tuple[Any, str | None]:
        clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if len(clean) > longest:
            return clean[:longest], f"{name} has {len(clean)} characters; the first {longest} are used"
        return clean, None

    return read


def names(name: str) -> Reader:
    """Reads several lines of text with commas between them."""
    most = int(LIMITS["activations"].high)

    def read(text: str) -> tuple[Any, str | None]:
        found = split_names("".join(letter if letter.isprintable() else " " for letter in text))
        if not found:
            raise Problem(f"{name} is empty; expected at least one, such as relu")
        cut = [line(name)(one) for one in found[:most]]
        kept = split_names(", ".join(one for one, _ in cut))  # what was cut may have lost its closing parenthesis
        note = f"{len(found)} {name}; the first {most} are shown" if len(found) > most else None
        return tuple(line(name)(one)[0] for one in kept), note or next((told for _, told in cut if told), None)

    return read


def split_names(text: str) -> list[str]:
    """Activations with commas between them; commas inside parentheses belong to an activation.

    Example:
        >>> split_names("relu, max(x, 0.1*x), relu")
        ['relu', 'max(x, 0.1*x)']
    """
    found, open_brackets = [""], 0
    for letter in text[: int(LIMITS["query"].high)]:
        open_brackets = max(0, open_brackets + {"(": 1, ")": -1}.get(letter, 0))
        if letter == "," and not open_brackets:
            found.append("")
        else:
            found[-1] += letter
    return list(dict.fromkeys(" ".join(one.split()) for one in found if one.strip()))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Problem(f"{name} is {text[:20]!r}; expected a number") from None
    if not math.isfinite(value):
        raise Problem(f"{name} is {text[:20]!r}; expected a finite number")
    return value


def _within(name: str, value: Any, limit: Limit) -> tuple[Any, str | None]:
    inside = limit.clamp(value)
    note = f"{name} {value:g} is outside {limit.low:g} … {limit.high:g}; {inside:g} is used"
    return (value, None) if inside == value else (type(value)(inside), note)


class State:
    """What all labs' states share: to and from a query. Fields have a reader of the same name in `readers`."""

    readers: ClassVar[Mapping[str, Reader]]

    @classmethod
    def read(cls, query: str | Mapping[str, Any]) -> tuple[Self, list[str]]:
        """The state in a query and what had to be changed to make it one; never fails.

        Args:
            query: query of a URL, with or without `?`, or the values by name.

        Returns:
            The state, and a sentence for each value that was not used as it came.

        Example:
            >>> state, notes = DepthState.read("?width=64&depth=1000000")
            >>> state.width, state.depth, notes
            (64, 500, ['depth 1e+06 is outside 1 … 500; 500 is used'])
        """
        values, notes = {}, []
        for name, text in _pairs(query).items():
            if name not in cls.readers:
                continue
            try:
                values[name], note = cls.readers[name](text)
            except Problem as problem:
                note = str(problem)
            if note is not None:
                notes.append(note)
        state, more = cls(**values).settled()
        return state, notes + more

    def settled(self) -> tuple[Self, list[str]]:
        """The state with what its values rule out together changed."""
        return self, []

    def query(self) -> str:
        """The query of the URL: what differs from the default, in the order of the fields.

        Example:
            >>> ActivationState(activations=("relu", "x*sigmoid(x)"), rho=0.5).query()
            'activations=relu%2C+x%2Asigmoid%28x%29&rho=0.5'
        """
        default = type(self)()
        changed = [
            (field.name, _text(getattr(self, field.name)))
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != getattr(default, field.name)
        ]
        return urlencode(changed)

    def texts(self) -> dict[str, str]:
        """Every value as the text of its control.

        Example:
            >>> DepthState().texts()["residual"]
            ''
        """
        return {field.name: _text(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


def _pairs(query: str | Mapping[str, Any]) -> dict[str, str]:
    if isinstance(query, Mapping):
        return {str(name): "" if value is None else str(value) for name, value in query.items()}
    text = query.removeprefix("?")[: int(LIMITS["query"].high)]
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=60, errors="replace"))
    except ValueError:
        return {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(value)
    return repr(value) if isinstance(value, float) else str(value)  # repr reads back to the same number


@dataclass(frozen=True)
class ActivationState(State):
    """The activation lab: which activations, in which layer, from which cosine, at which point of the phase diagram."""

    activations: tuple[str, ...] = ("tanh", "relu", "gelu")
    norm: str = "none"
    position: str = "pre"
    residual: float | None = None
    gain: float = 1.0
    rho: float = 0.3
    layers: int = 60
    shown: str = "layer"
    phase: str = ""
    sigma_w: float = 1.5
    sigma_b: float = 0.3

    readers: ClassVar[Mapping[str, Reader]] = {
        "activations": names("activations"),
        "norm": choice("norm", ("none", "layer", "rms")),
        "position": choice("position", ("pre", "post", "sum")),
        "residual": optional("residual"),
        "gain": real("gain"),
        "rho": real("rho"),
        "layers": whole("layers"),
        "shown": choice("shown", ("layer", "itself")),
        "phase": line("phase"),
        "sigma_w": real("sigma_w"),
        "sigma_b": real("sigma_b"),
    }

    def settled(self) -> tuple[Self, list[str]]:
        """The first activation is the one of the phase diagram unless another is chosen."""
        chosen = self.phase if self.phase in self.activations[1:] else ""
        position, notes = _norm_place(self.position, self.residual)
        return replace(self, phase=chosen, position=position), notes

    @property
    def phase_of(self) -> str:
        """The activation of the phase diagram: the one chosen, or the first."""
        return self.phase if self.phase in self.activations else self.activations[0]


def _norm_place(position: str, residual: float | None) -> tuple[str, list[str]]:
    """Where the norm is: after the sum only if there is one."""
    if position == "sum" and residual is None:
        return "pre", ["a norm after the skip’s sum needs a residual strength; it is before φ instead"]
    return position, []


NORMS = ("none", "batch", "batch-rescale", "batch-recenter", "layer", "rms")
WEIGHTS = (
    "gaussian",
    "orthogonal",
    "uniform",
    "he",
    "xavier-normal",
    "xavier-uniform",
    "pytorch",
    "asymmetric",
    "orthogonalized-xavier",
)
INPUTS = ("gaussian", "orthogonal", "correlated:0.9", "collinear:0.1", "degenerate:2", "power-law:1")
_RANKS = ("effective_rank", "stable_rank", "soft_rank", "rank")
NETWORK = ("activation", "norm", "position", "weights", "gain", "residual", "depth", "width", "network")
"""What of a depth state is the network."""
SETTING = (*NETWORK, "batch", "source", "seed")
"""The network and its input."""


def rank_choices() -> dict[str, str]:
    """The ranks to choose from and what to call them; metrics registered at run time are offered beside them.

    Example:
        >>> rank_choices()
        {'effective_rank': 'effective', 'stable_rank': 'stable', 'soft_rank': 'soft', 'rank': 'numerical'}
    """
    more = [one.name for one in added() if one.reads in ("gram", "products")]
    return {name: METRICS[name].title.removesuffix(" rank") for name in (*_RANKS, *more)}


@dataclass(frozen=True)
class DepthState(State):
    """The depth lab: a random network, its input, and the layer that is looked at."""

    activation: str = "relu"
    norm: str = "none"
    position: str = "pre"
    weights: str = "gaussian"
    gain: str = "forward"
    residual: float | None = None
    depth: int = 50
    width: int = 100
    batch: int = 10
    runs: int = 16
    source: str = "gaussian"
    seed: int = 0
    layer: int = 5
    rank: str = "effective_rank"
    own_width: str = "off"
    network: str = ""
    against: str = ""

    readers: ClassVar[Mapping[str, Reader]] = {
        "activation": line("activation"),
        "norm": choice("norm", NORMS),
        "position": choice("position", ("pre", "post", "sum")),
        "weights": choice("weights", WEIGHTS),
        "gain": choice("gain", ("forward", "1")),
        "residual": optional("residual"),
        "depth": whole("depth"),
        "width": whole("width"),
        "batch": whole("batch"),
        "runs": whole("runs"),
        "source": choice("source", INPUTS),
        "seed": whole("seed"),
        "layer": lambda text: whole("depth")(text) if text.strip() != "0" else (0, None),  # layer 0 is the input
        "rank": lambda text: choice("rank", tuple(rank_choices()))(text),  # metrics may be registered later
        "own_width": choice("own_width", ("on", "off")),
        "network": line("network"),
        "against": line("against"),
    }

    def pinned(self) -> str:
        """Network and input as one value, for `against` of a state that is compared with this one.

        Example:
            >>> DepthState(norm="batch").pinned()
            'activation=relu&norm=batch'
        """
        default = DepthState()
        # The activation is always there: nothing at all means that nothing is compared.
        named = [name for name in SETTING if name == "activation" or getattr(self, name) != getattr(default, name)]
        return urlencode([(name, _text(getattr(self, name))) for name in named])

    @property
    def other(self) -> DepthState | None:
        """The state that this one is compared with; what is shown of both is the same.

        Example:
            >>> DepthState(runs=4, against="norm=batch").other.norm
            'batch'
        """
        if not self.against:
            return None
        given = {name: text for name, text in _pairs(self.against).items() if name in SETTING}
        found, _ = DepthState.read(given)
        return replace(found, runs=self.runs, rank=self.rank, layer=min(self.layer, found.depth))

    def kept(self, depth: int) -> int:
        """Numbers that a run's backward pass keeps at a depth.

        Example:
            >>> DepthState().kept(50)
            250000
        """
        full = self.weights not in GRAM_LAWS
        weights = self.width**2 if full else 2 * self.batch * self.width
        return depth * (weights + 3 * self.batch * self.width)

    def settled(self) -> tuple[Self, list[str]]:
        """The depth at which memory suffices, and a layer that the network has."""
        depth = self.depth
        position, notes = _norm_place(self.position, self.residual)
        budget = int(LIMITS["kept"].high)
        if self.kept(depth) > budget:
            depth = max(1, budget // self.kept(1))
            notes.append(f"depth {self.depth} at this width and batch needs too much memory; {depth} is used")
        against, more = self._settled_against()
        settled = replace(self, depth=depth, layer=min(self.layer, depth), position=position, against=against)
        return settled, notes + more

    def _settled_against(self) -> tuple[str, list[str]]:
        if not self.against:
            return "", []
        found = self.other
        text = "" if found is None else found.pinned()
        if len(text) <= LIMITS["against"].high:
            return text, []
        return "", ["the network to compare with is too long for the address; it is left out"]


EXPERIMENTS = ("dies", "norm", "skip")
"""The guided experiments by name, in their order."""


@dataclass(frozen=True)
class StartState(State):
    """The start page: which guided experiment, which step of it, and what the reader changed."""

    experiment: str = ""
    step: int = 1
    depth: int = 50
    residual: float = 0.3
    layer: int = 0

    readers: ClassVar[Mapping[str, Reader]] = {
        "experiment": choice("experiment", ("", *EXPERIMENTS)),
        "step": whole("step"),
        "depth": whole("depth"),
        "residual": real("residual"),
        "layer": lambda text: whole("depth")(text) if text.strip() != "0" else (0, None),
    }

    def settled(self) -> tuple[Self, list[str]]:
        """A layer that the network has."""
        return replace(self, layer=min(self.layer, self.depth)), []


@dataclass(frozen=True)
class ClinicState(State):
    """The clinic: which model or report, which curve, which layer."""

    report: str = ""
    other: str = ""
    network: str = ""
    stress: str = "off"
    metric: str = ""
    axis: str = "layer"
    layer: int = 0
    page: int = 1
    find: str = ""

    readers: ClassVar[Mapping[str, Reader]] = {
        "report": line("report"),
        "other": line("other"),
        "network": line("network"),
        "stress": choice("stress", ("on", "off")),
        "metric": line("metric"),
        "axis": choice("axis", ("layer", "depth")),
        "layer": lambda text: (int(LIMITS["report_layers"].clamp(_number("layer", text))), None),
        "page": whole("page"),
        "find": line("find"),
    }
