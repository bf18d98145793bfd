from ._answer import Answer as Answer
from ._answer import Check as Check
from ._answer import Published as Published
from ._bands import largest_depth as largest_depth
from ._conditioning import least_depth as least_depth
from ._edge import edge_curve as edge_curve
from ._edge import edge_of as edge_of
from ._solve import solve as solve
