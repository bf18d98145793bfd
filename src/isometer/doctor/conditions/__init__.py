"""What the doctor knows: conditions and prescriptions as data, and the findings that come of them. No torch here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
