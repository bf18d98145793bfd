"""What the doctor says about a model, for people, programs and notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from isometer.doctor.conditions._findings import Finding
from isometer.doctor.diagnosis._batches import GivenBatches
from isometer.doctor.diagnosis._reliability import reliability
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._unseen import Unseen
from isometer.report._cause_words import first_cause
from isometer.report._outlook_words import PHRASES, outcome
from isometer.serialize import json_data

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from isometer.doctor.causes._explanation import CauseExplanation
    from isometer.doctor.causes._search import Cause
    from isometer.doctor.prediction._predict_chain import Prediction
    from isometer.doctor.stress._outlook import Outlook
    from isometer.doctor.stress._stress import Stress

SCHEMA = 1
_MOST_GRAMS = 48


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Findings of one model on one batch, with the measurements behind them.

    Example:
        >>> import torch
        >>> from isometer.doctor import diagnose
        >>> report = diagnose(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)),
        ...                   torch.randn(8, 16, generator=torch.Generator().manual_seed(0)))
        >>> report.healthy, report.findings
        (True, ())
        >>> sorted(report.to_dict())[:4]
        ['batch', 'causes', 'comparison', 'events']

    Attributes:
        model: name of what was examined.
        mode: `train` or `eval`.
        examination: every measurement.
        findings: what was found, most severe first.
        prediction: what theory and simulation say about the chain in the model, `None` where there is none.
        no_prediction: why there is none.
        batch: description of the batch.
        stress: what the stress test ran, `None` without one.
        asked: whether the caller named an optimizer.
        notes: what was found although the model trains with every optimizer that was tried, so that it is harmless
            here.
        given: the batches that it was examined with, for a treatment.
    """

    model: str
    mode: str
    examination: Examination
    findings: tuple[Finding, ...]
    prediction: Prediction | None = None
    no_prediction: str = ""
    batch: str = ""
    stress: Stress | None = None
    asked: bool = False
    notes: tuple[Finding, ...] = ()
    given: GivenBatches | None = None

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        """Parts of the model that were not examined, and why."""
        return self.examination.unseen

    @property
    def trains(self) -> Mapping[str, Outlook]:
        """The verdicts, by name of the optimizer; empty without a stress test."""
        return {} if self.stress is None else self.stress.outlooks

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What keeps the model from training, most effective repair first; empty where it trains or nothing helped."""
        explained = self.explanation
        return () if explained is None else explained.causes

    @property
    def explanation(self) -> CauseExplanation | None:
        """The search for causes, `None` where there was no reason for one."""
        return None if self.stress is None else cast("CauseExplanation | None", self.stress.explanation)

    @property
    def healthy(self) -> bool | None:
        """Whether it trains with the given optimizer, or with Adam or SGD where none was given; `None` if unknown.

        Without a stress test: whether nothing was found.
        """
        if not self.trains:
            return not self.findings
        verdicts = [one.at_rate.verdict if one.at_rate is not None else one.verdict for one in self.trains.values()]
        if all(verdict == "sick" for verdict in verdicts):
            return False
        if any(verdict in ("trains", "slow") for verdict in verdicts):
            return not (self.asked and "sick" in verdicts)
        return None

    @property
    def summary(self) -> str:
        """One line."""
        size = f"{len(self.examination) - 1} sites, depth {View(self.examination).depth}"
        severe = [finding.id for finding in self.findings if finding.severity == "severe"]
        gravity = "severe" if severe else "moderate"
        found = f"{gravity} findings: {', '.join(one.id for one in self.findings)}" if self.findings else ""
        if self.trains:
            names = self._outcomes()
            words = [f"{said} with {' and '.join(names[kind])}" for kind, said in PHRASES.items() if kind in names]
            cause = first_cause([one.to_dict() for one in self.causes])
            if cause:  # the first verdict is the worst
                words[0] = f"{words[0]}: {cause}"
            noted = f"Noted, harmless here: {', '.join(one.id for one in self.notes)} ({size})." if self.notes else ""
            nothing = noted or (f"The probe has no findings ({size})." if cause else f"Nothing found in {size}.")
            return f"{self.model} {'; '.join(words)}. " + (f"The probe has {found} ({size})." if found else nothing)
        if not found:
            return f"{self.model}: nothing found in {size}, {self.examination.samples} samples; no stress test was run."
        return f"{self.model} has {found} ({size}); no stress test was run."

    def _outcomes(self) -> dict[str, list[str]]:
        """The optimizers by what came of them, at the caller's rate where there is one."""
        found: dict[str, list[str]] = {}
        for name, one in self.trains.items():
            judged = one if one.at_rate is None else one.at_rate
            asked = name if one.at_rate is None else f"{name} at {one.at_rate.rate:.3g}"
            found.setdefault(outcome(judged.verdict, judged.probability), []).append(asked)
        return found

    def to_dict(self, *, grams: bool = False) -> dict[str, Any]:
        """Everything, ready for JSON: nan is `None`, infinities are `"inf"` and `"-inf"`.

        Args:
            grams: with the Gram matrices of at most 48 layers, as cosines.
        """
        examined = self.examination.to_dict()
        names = list(self.examination.values)
        rows, missed, loss = (examined.pop(key) for key in ("layers", "unseen", "loss"))
        columns = {name: [row["metrics"][name] for row in rows] for name in names}
        return {
            "schema": SCHEMA,
            "model": self.model,
            "mode": self.mode,
            "batch": {"samples": examined["samples"], "description": self.batch},
            "healthy": self.healthy,
            "trains": {name: one.to_dict() for name, one in self.trains.items()},
            "causes": [one.to_dict() for one in self.causes],
            "explanation": None if self.explanation is None else self.explanation.to_dict(),
            "summary": self.summary,
            "reliability": reliability(),
            "findings": json_data([finding.to_dict() for finding in self.findings]),
            "notes": json_data([finding.to_dict() for finding in self.notes]),
            "unseen": missed,
            "loss": loss,
            "layers": [{key: value for key, value in row.items() if key != "metrics"} for row in rows],
            "metrics": columns,
            "events": {key: value for key, value in examined.items() if key != "samples"},
            "prediction": self.prediction.to_dict() if self.prediction is not None else None,
            "no_prediction": self.no_prediction,
            "grams": self._grams() if grams else None,
            "comparison": None,
            "stress": None if self.stress is None else self.stress.to_dict(),
        }

    def _grams(self) -> dict[str, Any] | None:
        with_gram = [
            layer for layer, site in enumerate(self.examination.sites) if site.gram is not None and site.finite
        ]
        if not with_gram:
            return None
        # unique: where there are fewer layers, rounding names them several times.
        chosen = [with_gram[i] for i in np.unique(np.linspace(0, len(with_gram) - 1, _MOST_GRAMS).round().astype(int))]
        matrices = []
        for layer in chosen:
            gram = self.examination.gram(layer)
            assert gram is not None
            lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
            lengths = np.where(lengths > 0, lengths, np.inf)  # a zero sample has cosine 0 with all, itself included
            matrices.append(np.round(gram / lengths[:, None] / lengths[None, :], 4).tolist())
        return {"layers": chosen, "matrices": matrices}

    def to_dataset(self) -> xarray.Dataset:
        """The trajectory; predictions are variables `predicted_…` with a dimension `bound` (mean, low, high)."""
        data = self.examination.to_dataset()
        if self.prediction is not None:
            for name, band in self.prediction.metrics.items():
                values = np.full((3, len(self.examination)), math.nan)
                values[:, list(self.prediction.layers)] = np.stack([band.mean, band.low, band.high])
                data[f"predicted_{name}"] = (("bound", "layer"), values)
            data = data.assign_coords(bound=np.array(["mean", "low", "high"], dtype=object))
        data.attrs["healthy"] = {True: 1, False: 0, None: -1}[self.healthy]
        data.attrs["findings"] = ", ".join(finding.id for finding in self.findings)
        return data

    def to_html(self, path: str | Path | None = None) -> str:
        """One page that opens offline; also written to `path` if given."""
        from isometer.report._doctor_page import doctor_page, save_page

        document = self.to_dict(grams=True)
        if path is not None:
            return save_page(document, Path(path)).read_text(encoding="utf-8")
        return doctor_page(document)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw size, cosines and gradients over the layers.

        Args:
            path: also write the picture to this file, .png, .pdf or .svg.

        Returns:
            A matplotlib figure, which notebooks display.
        """
        from isometer.report._doctor_picture import doctor_picture
        from isometer.report._pictures import save_figure

        figure = doctor_picture(self.to_dict())
        if path is not None:
            save_figure(figure, path)
        return figure

    def __repr__(self) -> str:
        from isometer.report._doctor_terminal import report_screen

        return report_screen(self.to_dict())

    def _repr_html_(self) -> str:
        from isometer.report._doctor_page import notebook_html

        return notebook_html(self.to_dict())

    def __str__(self) -> str:
        return self.summary
