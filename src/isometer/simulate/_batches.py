"""Input batches by name, which live in `isometer.data._batches` so that predictions can use them without torch."""

from isometer.data._batches import make_batch

__all__ = ["make_batch"]
