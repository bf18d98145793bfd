from ._law import JacobianLaw as JacobianLaw
from ._law import jacobian_spectrum as jacobian_spectrum
