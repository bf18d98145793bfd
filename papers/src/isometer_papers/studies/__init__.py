"""Figures and tables of the papers, each a study that one command makes again.

from isometer_papers.studies import find, reproduce

reproduce([find("003/fig-2b")], "gallery", scale="quick")
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
