"""The doctor's report as one picture: size, cosines and gradients over the layers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer.metrics._catalogue import describe
from isometer.report._doctor_fragments import verdict
from isometer.report._doctor_metrics import columns, ordered, shown
from isometer.report._outlook_words import headline
from isometer.report._pictures import PALETTE, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = ("rms", "mean_abs_cosine", "gradient_log_norm")
_FLAGS = {"severe": "#d62728", "moderate": "#E69F00"}
_TITLES = {"gradient_log_norm": "log₁₀ ‖∂loss/∂weights‖", "rms": "size of the signal (rms)"}
_NAMED = 3  # findings in the title of a panel


def doctor_picture(report: Mapping[str, Any]) -> Figure:
    """Three panels over the layers, with the band of theory where there is one; layers of findings are marked.

    Args:
        report: the dictionary of a doctor's report, schema 1.

    Example:
        >>> import torch
        >>> from isometer.doctor import diagnose
        >>> report = diagnose(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), stress=False)
        >>> len(doctor_picture(report.to_dict()).axes)
        3
    """
    values = columns(report)
    names = [name for name in _CURVES if name in values]
    figure, axes = new_figure(max(1, len(names)), width=4.2, height=3.2)
    for axis, name in zip(axes.ravel(), names, strict=False):
        _draw(axis, name, values[name], report)
    told = headline(report)
    findings = [str(one["id"]) for one in ordered(report["findings"])]
    words = f": {', '.join(findings[:_NAMED])}" if findings else ""
    more = f" and {len(findings) - _NAMED} more" if len(findings) > _NAMED else ""
    title = f"{told.word} · {report['model']} · {verdict(report)}{words}{more}"
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def treatment_picture(before: Mapping[str, Any], after: Mapping[str, Any], summary: str) -> Figure:
    """The same three panels with the curves before and after a treatment.

    Args:
        before: the dictionary of the report on the untreated model.
        after: of the treated one.
        summary: the title.

    Example:
        >>> import torch
        >>> from isometer.doctor import diagnose
        >>> report = diagnose(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), stress=False).to_dict()
        >>> len(treatment_picture(report, report, "nothing to treat").axes)
        3
    """
    arms = (("before", columns(before), PALETTE[1]), ("after", columns(after), PALETTE[0]))
    names = [name for name in _CURVES if any(name in values for _, values, _ in arms)]
    figure, axes = new_figure(max(1, len(names)), width=4.2, height=3.2)
    for axis, name in zip(axes.ravel(), names, strict=False):
        every: list[float] = []
        for label, values, colour in arms:
            curve = np.array(values.get(name, []), dtype=float)
            seen = np.isfinite(curve)
            every += curve[seen].tolist()
            axis.plot(np.flatnonzero(seen), curve[seen], ".-", color=colour, linewidth=1.2, markersize=4, label=label)
        _finish(axis, name, np.array(every))
    figure.suptitle(textwrap.shorten(summary, 140, placeholder=" …"), fontsize=10, x=0.01, ha="left")
    return figure


def _finish(axis: Any, name: str, values: Any) -> None:
    """Scale, title and legend of a panel."""
    if name == "rms" and len(values) > 1 and (values > 0).all() and describe(name).log_axis(values):
        axis.set_yscale("log")
    axis.set_title(_TITLES.get(name, describe(name).title), fontsize=9)
    axis.set_xlabel("layer")
    legend_below(axis, size=7)


def _draw(axis: Any, name: str, values: Sequence[float], report: Mapping[str, Any]) -> None:
    layers = np.arange(len(values))
    curve = np.array(values, dtype=float)
    seen = np.isfinite(curve)
    axis.plot(layers[seen], curve[seen], ".-", color=PALETTE[0], linewidth=1.2, markersize=4, label="measured")
    predicted = (report.get("prediction") or {}).get("metrics", {}).get(name)
    if predicted is not None:
        at = np.array(report["prediction"]["layers"])
        low, high = (np.array(shown(name, predicted[part]), dtype=float) for part in ("low", "high"))
        given = np.isfinite(low) & np.isfinite(high)
        axis.fill_between(
            at[given],
            low[given],
            high[given],
            color=PALETTE[2],
            alpha=0.25,
            linewidth=0,
            label="expected at this width",
        )
    _mark(axis, report, np.where(seen, curve, np.nan))
    _finish(axis, name, curve[seen])
    if not seen.any():
        axis.text(0.5, 0.5, "not finite", ha="center", transform=axis.transAxes)


def _mark(axis: Any, report: Mapping[str, Any], curve: Any) -> None:
    """Layers of findings, each in the colour of its most severe one."""
    worst: dict[int, str] = {}
    for finding in reversed(ordered(report["findings"])):
        worst |= dict.fromkeys(map(int, finding["layers"]), str(finding["severity"]))
    for severity, colour in _FLAGS.items():
        at = [layer for layer, found in worst.items() if found == severity and 0 <= layer < len(curve)]
        if at:
            axis.plot(at, curve[at], "o", color=colour, markersize=4, label=f"{severity} finding")
