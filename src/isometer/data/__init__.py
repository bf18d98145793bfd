"""Real data sets from files of this computer, and generators of synthetic batches.

`load` reads and checks a set, `get` obtains one when asked, `find` says where one lies.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
