"""Numbers read off a batch of representations or its Gram matrix.

A representation is `(…, n, d)`: samples, then features. A Gram matrix is `(…, n, n)`, `H Hᵀ / d`. Metrics which depend
on the Gram matrix alone take either, `metric(H)` or `metric(gram=G)`; leading dimensions are batched over. NumPy arrays
give NumPy results, torch tensors give tensors, and torch is never imported here. Half precision is computed in float32,
integers in float64. Degenerate batches have a documented value; NaN and infinite entries raise `IsometerError`.

`METRICS` is the catalogue: every metric by the name that `simulate`, `predict`, the doctor, reports, the explorer and
the command know it by. `register` adds one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
