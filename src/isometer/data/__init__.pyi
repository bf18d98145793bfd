from ._batches import make_batch as make_batch
from ._catalog import CATALOG as CATALOG
from ._datasets import DataSet as DataSet
from ._datasets import load as load
from ._datasets import source_from_text as source_from_text
from ._locate import cache_folder as cache_folder
from ._locate import find as find
from ._obtain import get as get
