from ._blocks import kernel_job as kernel_job
from ._blocks import kernels_of_job as kernels_of_job
from ._estimators import NetworkKernelClassifier as NetworkKernelClassifier
from ._estimators import NetworkKernelRegressor as NetworkKernelRegressor
from ._ridge import RIDGES as RIDGES
from ._ridge import RidgeFit as RidgeFit
from ._ridge import ridge_fit as ridge_fit
