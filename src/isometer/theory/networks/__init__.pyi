from ._coverage import coverage as coverage
from ._exchangeable import ExchangeablePath as ExchangeablePath
from ._exchangeable import exchangeable_path as exchangeable_path
from ._kernels import network_kernels as network_kernels
from ._pairs import PairKernels as PairKernels
from ._pairs import pair_kernels as pair_kernels
from ._state import NotCovered as NotCovered
