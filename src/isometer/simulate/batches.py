"""Input batches by name, which live in `isometer.data.batches` so that predictions can use them without torch."""

from isometer.data.batches import make_batch

__all__ = ["make_batch"]
