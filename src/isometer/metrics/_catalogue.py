"""Every metric by name: what it reads, how it scales, and how people read it.

Simulation, prediction, the doctor, reports, the explorer and the command know metrics from here only. To add one, write
its entry in `_built_in.py`, or call `register` at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from isometer.errors import IsometerError, unknown_name
from isometer.metrics._built_in import BUILT_IN
from isometer.metrics._metric import Metric, Reads, check_entry

_METRICS = {entry.name: entry for entry in BUILT_IN}
_OWN = frozenset(_METRICS)
METRICS: Mapping[str, Metric] = MappingProxyType(_METRICS)
"""Every metric by name, those registered at run time last."""


def register(metric: Metric, *, replace: bool = False) -> Metric:
    """Add a metric to the catalogue, for everything that takes metrics by name in this process.

    Args:
        metric: the metric.
        replace: whether it may take the place of one that was registered before; never of a built-in one.

    Returns:
        The metric.

    Example:
        >>> from isometer.metrics._gram_matrix import spectrum
        >>> def spread(representation=None, *, gram=None):
        ...     values = spectrum(representation, gram=gram)
        ...     return values[..., 0] - values[..., -1]
        >>> register(Metric("spread", spread, "gram", "quadratic", lower=0.0)).title
        'spread'
        >>> "spread" in METRICS, unregister("spread"), "spread" in METRICS
        (True, None, False)
    """
    check_entry(metric)
    if metric.name in _METRICS and (metric.name in _OWN or not replace):
        which = "a built-in metric" if metric.name in _OWN else "registered already"
        fix = "choose another name" if metric.name in _OWN else "choose another name, or pass replace=True"
        raise IsometerError(f"the metric {metric.name!r} is {which}; expected a new name — {fix}")
    _METRICS[metric.name] = metric
    return metric


def unregister(name: str) -> None:
    """Remove a metric that was registered at run time.

    Args:
        name: name of the metric.

    Returns:
        None.

    Example:
        >>> unregister("rank")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: 'rank' is not a metric registered at run time; expected one of: none — ...
    """
    if name not in _METRICS or name in _OWN:
        known = ", ".join(one.name for one in added()) or "none"
        raise IsometerError(
            f"{name!r} is not a metric registered at run time; expected one of: {known} — built-in ones stay"
        )
    del _METRICS[name]


def added() -> list[Metric]:
    """The metrics that were registered at run time.

    Example:
        >>> added()
        []
    """
    return [entry for name, entry in METRICS.items() if name not in _OWN]


def metric(name: str, among: Iterable[str] | None = None) -> Metric:
    """The metric of a name.

    Args:
        name: name of the metric.
        among: names that will do; all by default.

    Returns:
        Its entry.

    Raises:
        IsometerError: there is none; the message suggests the nearest name.

    Example:
        >>> metric("rank").title
        'numerical rank'
        >>> metric("rnak", ["rank", "soft_rank"])
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown metric 'rnak'; did you mean 'rank'? expected one of rank, soft_rank
    """
    known = list(METRICS if among is None else among)
    if name in known and name in METRICS:
        return METRICS[name]
    raise unknown_name("metric", name, known)


def names(*reads: Reads) -> list[str]:
    """Names of the metrics that read one of these; of all by default.

    Args:
        reads: what they read, see `Metric.reads`.

    Returns:
        The names, in the order of the catalogue.

    Example:
        >>> names("gradient")
        ['gradient_log_norm', 'gradient_alignment']
    """
    return [name for name, entry in METRICS.items() if not reads or entry.reads in reads]


_also: ContextVar[frozenset[str]] = ContextVar("also_probed", default=frozenset())


@contextmanager
def also_probed(*wanted: str) -> Iterator[None]:
    """Metrics of a batch that the doctor measures at every site inside, beside those that it always does.

    Example:
        >>> with also_probed("soft_rank"):
        ...     [entry.name for entry in probed("products")]
        ['soft_rank']
    """
    token = _also.set(_also.get() | {metric(name).name for name in wanted})
    try:
        yield
    finally:
        _also.reset(token)


def probed(*reads: Reads) -> list[Metric]:
    """The metrics of these readings that the doctor measures at every site.

    Example:
        >>> [entry.name for entry in probed("gram")][:2], probed("products", "representation")
        (['orthogonality_gap', 'isometry_gap'], [])
    """
    also = _also.get()
    return [one for one in METRICS.values() if (one.probed or one.name in also) and one.reads in reads]


def describe(name: str) -> Metric:
    """How to show a quantity: the catalogue's entry, or what its name says where there is none.

    Example:
        >>> describe("dead_fraction").title, describe("log_diagonal").title, describe("log_diagonal").scaling
        ('dead units', 'log diagonal', 'logarithmic')
    """
    if name in METRICS:
        return METRICS[name]
    return Metric(name, None, "site", "logarithmic" if "log" in name.split("_") else "absolute")
