"""Real data sets from files of this computer, and generators of synthetic batches.

`load` reads and checks a set, `get` obtains one when asked, `find` says where one lies.
"""

from isometer.data._catalog import CATALOG
from isometer.data._datasets import DataSet, load, source_from_text
from isometer.data._locate import cache_folder, find
from isometer.data._obtain import get

__all__ = ["CATALOG", "DataSet", "cache_folder", "find", "get", "load", "source_from_text"]
