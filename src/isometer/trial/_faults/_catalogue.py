"""All faults, group by group."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isometer.trial._faults._activations import ACTIVATIONS
from isometer.trial._faults._fault import Fault
from isometer.trial._faults._inputs import INPUTS
from isometer.trial._faults._loss import LOSS
from isometer.trial._faults._norms import NORMS
from isometer.trial._faults._path import PATH
from isometer.trial._faults._readout import READOUT
from isometer.trial._faults._sizes import BATCH_SIZES
from isometer.trial._faults._targets import TARGETS
from isometer.trial._faults._weights import WEIGHTS

# The order of the groups here, and of the faults in their modules, is the order of tables and lists.
_GROUPS = (WEIGHTS, PATH, NORMS, ACTIVATIONS, INPUTS, TARGETS, LOSS, READOUT, BATCH_SIZES)

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {name: fault for group in _GROUPS for name, fault in group.faults.items()}
)
"""The faults that can be made in most models, by name."""
