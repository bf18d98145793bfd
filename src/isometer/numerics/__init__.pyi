from ._piecewise_legendre import panel_nodes as panel_nodes
