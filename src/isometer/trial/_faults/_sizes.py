"""Sizes: of the batch, and those that change the blueprint."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isometer.trial._faults._fault import FaultGroup, Severity, one_of
from isometer.trial._specimen import Specimen

BATCH_SIZES = FaultGroup("size")


@BATCH_SIZES.fault("batch-tiny", "two or three samples per step", one_of(samples=(2, 3)))
def _small_batch(specimen: Specimen, severity: Severity) -> None:
    specimen.samples = severity["samples"]


@BATCH_SIZES.fault("batch-repeated", "every sample of a batch many times", one_of(different=(1, 2, 4)))
def _repeated(specimen: Specimen, severity: Severity) -> None:
    specimen.different = severity["different"]


SIZES: Mapping[str, str] = MappingProxyType(
    {
        "too-deep": "four times as many layers as drawn",
        "too-narrow": "an eighth of the width drawn",
    }
)
"""Faults of size, which change the blueprint of any family."""
