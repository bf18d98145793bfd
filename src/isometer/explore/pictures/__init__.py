"""Pictures of the labs: pure functions from numbers to a Plotly figure (plain data), light or dark."""
