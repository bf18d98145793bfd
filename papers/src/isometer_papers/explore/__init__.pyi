from ._lab import LAB as LAB
from ._lab import LedgerState as LedgerState
