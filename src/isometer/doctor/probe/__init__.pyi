from ._examination import Examination as Examination
from ._examine import probe as probe
from ._unseen import Unseen as Unseen
