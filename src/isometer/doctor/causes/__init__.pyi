from ._repair import Repair as Repair
