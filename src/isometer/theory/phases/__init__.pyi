from ._jacobian_moments import JacobianMoments as JacobianMoments
from ._jacobian_moments import jacobian_moments as jacobian_moments
from ._phase import EdgeOfChaos as EdgeOfChaos
from ._phase import PhaseDiagram as PhaseDiagram
from ._phase import PhasePoint as PhasePoint
from ._phase import edge_of_chaos as edge_of_chaos
from ._phase import phase_diagram as phase_diagram
from ._phase import phase_point as phase_point
