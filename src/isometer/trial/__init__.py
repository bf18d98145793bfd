"""The trial: models the doctor has never seen, the truth about them by training, and how often it is right."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
