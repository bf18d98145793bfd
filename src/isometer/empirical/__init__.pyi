from ._comparison import kernel_alignment as kernel_alignment
from ._comparison import kernel_distance as kernel_distance
from ._comparison import label_gram as label_gram
from ._kernel import empirical_kernel as empirical_kernel
from ._result import EmpiricalKernel as EmpiricalKernel
